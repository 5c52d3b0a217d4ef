"""``tp.autograd.graph(loss)``: what is in the picture, and that it is well-formed and readable."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

import tensorplay as tp
from tensorplay_core.autograd.drawing import draw
from tensorplay_core.autograd.drawing_svg import Layout


def layers():
    w1, w2 = tp.ones(4, 3, requires_grad=True), tp.ones(3, 1, requires_grad=True)
    hidden = (tp.ones(2, 4) @ w1).tanh()
    return (hidden @ w2).sum(), {"w1": w1, "w2": w2, "hidden": hidden}


def texts(picture) -> set[str]:
    return {" ".join(box.lines) for box in picture.boxes}


def test_operators_shapes_leaves_and_what_is_saved():
    loss, params = layers()
    picture = tp.autograd.graph(loss, params=params)
    assert texts(picture) == {
        "output float32 ()",
        "sum float32 ()",
        "matmul float32 (2, 1)",
        "hidden tanh float32 (2, 3)",
        "matmul float32 (2, 3)",
        "w1 float32 (4, 3)",
        "w2 float32 (3, 1)",
        "saved self float32 (2, 4)",
        "saved self float32 (2, 3)",
        "saved other float32 (3, 1)",
    }
    assert texts(draw(loss, params=params.items(), show_saved=False)) == {
        text for text in texts(picture) if not text.startswith("saved")
    }
    loss.backward()
    assert not any(text.startswith("saved") for text in texts(draw(loss)))  # a pass has freed them


def test_a_shared_node_is_one_box_with_two_arrows():
    x = tp.ones(2, requires_grad=True)
    e = x.exp()
    picture = draw((e * e).sum(), show_saved=False)
    places = {box.lines[0]: i for i, box in enumerate(picture.boxes)}
    assert len(picture.boxes) == 5
    assert [(a.start, a.end) for a in picture.arrows].count((places["exp"], places["mul"])) == 2


def test_functions_and_several_results():
    class Both(tp.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, g, h):
            return g * 2 + h * 3

    a, b = Both.apply(tp.ones(2, requires_grad=True))
    picture = draw({"loss": (a * b).sum(), "b": b}, show_saved=True)
    kinds = {box.lines[0]: box.kind for box in picture.boxes}
    assert kinds["Both"] == "function" and kinds["result 0"] == kinds["result 1"] == "result of several"
    assert kinds["loss"] == kinds["b"] == "output"
    assert "saved x float32 (2,)" in texts(picture)


def test_dot():
    loss, params = layers()
    text = draw(loss, params=params).dot()
    assert text.startswith("digraph autograd {") and text.endswith("}\n")
    assert '[label="w1\\nfloat32 (4, 3)" fillcolor="#cfe3f7"];' in text
    assert "[style=dashed]" in text
    assert len(re.findall(r"^  n\d+ \[", text, re.M)) == 11
    quoted = draw({'a "name"': loss}).dot()
    assert 'label="a \\"name\\"' in quoted


def test_svg_is_well_formed_and_nothing_overlaps():
    loss, params = layers()
    picture = draw({"a <b> & c": loss}, params=params)
    root = ElementTree.fromstring(picture.svg())
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    shown = {element.text for element in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"a <b> & c", "w1", "hidden", "saved other"} <= shown
    assert picture._repr_svg_() == picture.svg()


def boxes_of(picture):
    at = Layout(picture.boxes, picture.arrows)
    return at, [
        (at.x[i] - at.width[i] / 2, at.y[i] - at.height[i] / 2, at.x[i] + at.width[i] / 2, at.y[i] + at.height[i] / 2)
        for i in range(len(picture.boxes))
    ]


def test_boxes_do_not_overlap_and_arrows_go_down():
    x = tp.ones(3, requires_grad=True)
    e = x.exp()
    many = [e * float(i) for i in range(6)]
    total = many[0]
    for one in many[1:]:
        total = total + one.sin() * x
    at, rectangles = boxes_of(picture := draw(total))
    for i, (l1, t1, r1, b1) in enumerate(rectangles):
        assert l1 >= 0 and t1 >= 0 and r1 <= at.size[0] and b1 <= at.size[1]
        for l2, t2, r2, b2 in rectangles[:i]:
            assert r1 <= l2 or r2 <= l1 or b1 <= t2 or b2 <= t1
    assert all(rectangles[a.start][3] < rectangles[a.end][1] for a in picture.arrows)


def test_a_chain_is_a_straight_line():
    y = tp.ones(2, requires_grad=True)
    for _ in range(50):
        y = y.tanh()
    at, rectangles = boxes_of(draw(y, show_saved=False))
    assert len(rectangles) == 52
    assert max(at.x) - min(at.x) < 1e-6


def test_files(tmp_path):
    loss, _ = layers()
    picture = draw(loss)
    assert picture.save(tmp_path / "graph.svg").read_text() == picture.svg()
    assert picture.save(str(tmp_path / "graph.dot")).read_text() == picture.dot()
    with pytest.raises(tp.ArgumentError, match=r"saved as .svg, .dot or .gv, not '.png'\nfix: .*dot -Tpng"):
        picture.save(tmp_path / "graph.png")
    assert repr(picture).startswith("<Drawing of ")


def test_what_cannot_be_drawn():
    y = x = tp.ones(2, requires_grad=True)
    for _ in range(300):
        y = y.tanh()
    with pytest.raises(tp.ArgumentError, match="more than 200 nodes"):
        draw(y)
    assert len(draw(y, max_nodes=1000, show_saved=False).boxes) == 302
    with pytest.raises(tp.AutogradError, match=r"output \(shape \(2,\)\) has no graph"):
        draw(x.detach())
    with pytest.raises(tp.ArgumentError, match="output 1 is int"):
        draw([y, 3])
    with pytest.raises(tp.ArgumentError, match="nothing to draw"):
        draw([])
