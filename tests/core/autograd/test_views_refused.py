"""The writes that no gradient can follow: refused before anything is written, with what, why and what to do."""

from __future__ import annotations

import pytest

import tensorplay as tp


def leaf(data):
    return tp.tensor(data, dtype=tp.float64, requires_grad=True)


def refuses(match, write, *unchanged):
    before = [t.tolist() for t in unchanged]
    with pytest.raises(tp.AutogradError, match=f"(?s){match}") as caught:
        write()
    assert isinstance(caught.value, RuntimeError) and "\nfix: " in str(caught.value)
    assert [t.tolist() for t in unchanged] == before


WRITES = {
    "add_": lambda t: t.add_(1),
    "mul_": lambda t: t.mul_(leaf(2.0)),
    "copy_": lambda t: t.copy_(t.detach() + 1),
    "zero_": lambda t: t.zero_(),
    "fill_": lambda t: t.fill_(3),
    "setitem": lambda t: t.__setitem__(0, 5.0),
    "set_mask": lambda t: t.__setitem__(tp.tensor([True, False]), 5.0),
}


@pytest.mark.parametrize("write", WRITES)
def test_a_view_of_a_leaf_that_requires_grad(write):
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    for view in (x[0], x.T[1], x.diagonal(), x.reshape(4)[:2]):
        refuses(r"a view of a leaf that requires grad.*no_grad", lambda view=view: WRITES[write](view), x)


def test_a_view_of_a_tensor_that_became_a_leaf_later():
    x = tp.zeros(3)
    view = x[:2]
    x.requires_grad_()
    refuses("a view of a leaf that requires grad", lambda: view.add_(1), x)


@pytest.mark.parametrize("write", WRITES)
def test_a_view_taken_in_no_grad(write):
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    for base in (x * 1, x):
        with tp.no_grad():
            view = base[0]
        assert not view.requires_grad
        words = r"select: the view was taken in no_grad.*_ would write to it"
        refuses(words, lambda view=view: WRITES[write](view), base)
        with tp.no_grad():
            view.add_(1)
        refuses("select: the view was taken in no_grad.*has been written to", lambda view=view: view * 2, base)
        with tp.no_grad():
            assert (view * 2).tolist() == (base[0] * 2).tolist()


def test_a_view_of_a_plain_tensor_taken_in_no_grad():
    w, z = leaf(2.0), tp.ones(3, dtype=tp.float64)
    with tp.no_grad():
        view = z[:2]
    view.mul_(2.0)
    assert view.tolist() == [2.0, 2.0]
    refuses("taken in no_grad", lambda: view.mul_(w), z)
    refuses("taken in no_grad", lambda: view[0].mul_(w), z)
    z.mul_(w)
    refuses("taken in no_grad.*has been written to", lambda: view + 1, z)
    assert view.requires_grad and "tensor" in repr(view)


def test_a_view_taken_in_inference_mode():
    x = leaf([1.0, 2.0])
    y = x * 1
    with tp.inference_mode():
        view = y[:1]
    assert (view + 1).tolist() == [2.0]
    refuses("taken in inference_mode", lambda: view.mul_(2), y)


@pytest.mark.parametrize("take", ["unbind", "split", "chunk"])
def test_one_of_several_results(take):
    def taken(t):
        return {"unbind": lambda: t.unbind(), "split": lambda: t.split(1), "chunk": lambda: t.chunk(2)}[take]()

    x, w, z = leaf([[1.0, 2.0], [3.0, 4.0]]), leaf(2.0), tp.ones(2, 2, dtype=tp.float64)
    y = x * 1
    first, second = taken(y)
    refuses("one of the several results.*out-of-place", lambda: first.mul_(2), y)
    refuses("one of the several results", lambda: first[0].mul_(2), y)
    (first * 2 + second).sum().backward()
    assert x.grad.tolist() == [[2.0, 2.0], [1.0, 1.0]]
    first, second = taken(z)
    first.mul_(3.0)
    refuses("one of the several results", lambda: second.mul_(w), z)
    z.mul_(w)
    refuses("one of the several results.*has been written to", lambda: second + 1, z)


def test_an_expanded_tensor_that_requires_grad():
    y = leaf(1.0) * 1
    with pytest.raises(tp.ShapeError, match=r"(?s)overlaps itself.*clone"):
        y.expand(3).mul_(2)
    assert y.item() == 1.0


def test_detach_in_place_of_a_view():
    x = tp.zeros(3)
    for view in (x[0], (leaf([1.0, 2.0]) * 1)[:1]):
        refuses(r"detach_: the tensor is a view.*detach\(\)", view.detach_, view)
    y = leaf([1.0, 2.0]) * 1
    view = y[0]
    y.detach_()
    assert not y.requires_grad and view.requires_grad


def test_a_saved_part_that_was_written_to_is_named_with_its_versions():
    x = leaf([1.0, 2.0])
    y = x * 1
    z = y[:1] * y[1:]
    y[0] = 5.0
    with pytest.raises(tp.AutogradError, match=r"mul saved '(self|other)'.*at version 0.*at version 1 now"):
        z.sum().backward()
    assert x.grad is None


def test_a_write_to_another_part_is_a_write_to_what_was_saved():
    """As in PyTorch: the count belongs to the memory, not to its parts."""
    x = leaf([1.0, 2.0])
    y = x * 1
    z = y[0] * y[0]
    y[1] = 5.0
    with pytest.raises(tp.AutogradError, match="modified in place"):
        z.backward()
