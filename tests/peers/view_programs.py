"""Random programs of views, writes, indexing and arithmetic, run step by step in two frameworks at once.

A program is a list of :class:`Step`: a kind, numbers that choose tensors and arguments, and whether the step is taken
in ``no_grad``. Numbers are read modulo what there is to choose from, so that every list is a program. A step that both
frameworks refuse is left out, and the program goes on; one that only one of them refuses is a finding. To add a kind
of step, write a function in ``VIEWS``, ``WRITES`` or ``VALUES``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Step(NamedTuple):
    """One step; see the module."""

    kind: str
    tensor: int
    other: int
    numbers: tuple[int, int, int]
    no_grad: bool


class Pair(NamedTuple):
    """A tensor of the program in both frameworks.

    Attributes:
        ours, theirs: the tensors.
        untracked: it is, or was computed from, a view that was taken in no_grad. PyTorch says of such a view that it
            requires grad as its base does, and lets it be a leaf of its own; here it requires none, as all that is
            computed there.
        memory: the number of the memory that it is a view of.
        repeats: elements of it may be the same memory, as it is, or is a view of, an expanded tensor.
    """

    ours: Any
    theirs: Any
    untracked: bool
    memory: int
    repeats: bool


Run = Callable[[Any, Any, Any, tuple[int, int, int]], Any]
"""``(framework, tensor, other, numbers)`` to the result, or to several."""


def _dim(x: Any, number: int) -> int:
    return number % x.ndim - (x.ndim if number % 2 else 0)


def _key(fw: Any, x: Any, numbers: tuple[int, int, int], *, basic: bool) -> Any:
    """Returns an index for a tensor: ints, slices, None, ..., and masks and lists where it need not be a view."""
    a, b, c = numbers
    n = x.shape[0]
    last = x.shape[-1]
    keys: list[Any] = [
        a % (n + 1) - 1 if n > 1 else 0,
        slice(a % n, None, 1 + b % 2),
        (Ellipsis, b % last),
        (None, a % n),
        (Ellipsis, slice(None, 1 + b % last)),
        Ellipsis,
        slice(None),
        (a % n, Ellipsis, None),
    ]
    if x.ndim > 1:
        keys += [(a % n, b % x.shape[1]), (slice(a % n, None), -1), (slice(None), None, slice(b % x.shape[1], None))]
    if not basic:
        keys += [[a % n, b % n], [-1]]
        mask = np.arange(n) % (2 + a % 2) == b % 2
        keys += [fw.tensor(mask.tolist()), (fw.tensor([a % n, b % n]), Ellipsis)]
        full = (np.arange(int(np.prod(x.shape))) % 3 == c % 3).reshape(x.shape)
        keys += [fw.tensor(full.tolist())]
        if x.ndim > 1:
            keys += [(fw.tensor([a % n, b % n]), fw.tensor([0, b % x.shape[1]])), (slice(None), [b % x.shape[1]])]
    return keys[c % len(keys)]


def _permute(fw: Any, x: Any, other: Any, n: tuple[int, int, int]) -> Any:
    dims = list(range(x.ndim))
    turn = n[0] % x.ndim
    return x.permute(*dims[turn:], *dims[:turn])


def _split(fw: Any, x: Any, other: Any, n: tuple[int, int, int]) -> Any:
    return x.split(1 + n[1] % 2, dim=_dim(x, n[0]))


def _reshape(fw: Any, x: Any, other: Any, n: tuple[int, int, int]) -> Any:
    shapes = [(-1,), (*x.shape, 1), (x.shape[-1], -1), (1, *x.shape)]
    return x.reshape(*shapes[n[0] % len(shapes)])


def _as_strided(fw: Any, x: Any, other: Any, n: tuple[int, int, int]) -> Any:
    count = int(np.prod(x.shape))
    return x.as_strided((max(1, count // 2), min(2, count)), (min(2, count), 1))


def _squeeze(fw: Any, x: Any, other: Any, n: tuple[int, int, int]) -> Any:
    return x.unsqueeze(n[0] % x.ndim).squeeze() if n[1] % 2 else x.squeeze()


def _slice(fw: Any, x: Any, other: Any, n: tuple[int, int, int]) -> Any:
    dim = n[0] % x.ndim
    return x[(*[slice(None)] * dim, slice(n[1] % x.shape[dim], None, 1 + n[2] % 2))]


VIEWS: dict[str, Run] = {
    "select": lambda fw, x, other, n: x.select(_dim(x, n[0]), n[1] % x.shape[_dim(x, n[0])]),
    "slice": _slice,
    "getitem": lambda fw, x, other, n: x[_key(fw, x, n, basic=True)],
    "permute": _permute,
    "transpose": lambda fw, x, other, n: x.transpose(_dim(x, n[0]), _dim(x, n[1])),
    "unsqueeze": lambda fw, x, other, n: x.unsqueeze(n[0] % (x.ndim + 1)),
    "squeeze": _squeeze,
    "expand": lambda fw, x, other, n: x.expand(2, *x.shape),
    "reshape": _reshape,
    "diagonal": lambda fw, x, other, n: x.diagonal(n[2] % 2, 0, x.ndim - 1),
    "as_strided": _as_strided,
    "narrow": lambda fw, x, other, n: x.narrow(_dim(x, n[0]), 0, 1 + n[1] % x.shape[_dim(x, n[0])]),
    "unbind": lambda fw, x, other, n: x.unbind(_dim(x, n[0])),
    "split": _split,
    "chunk": lambda fw, x, other, n: x.chunk(2, _dim(x, n[0])),
    "detach": lambda fw, x, other, n: x.detach(),
}
VALUES: dict[str, Run] = {
    "mul": lambda fw, x, other, n: x * other,
    "add": lambda fw, x, other, n: x + other,
    "square": lambda fw, x, other, n: x * x,
    "exp": lambda fw, x, other, n: (x * 0.1).exp(),
    "scale": lambda fw, x, other, n: x * (1 + n[0] % 3),
    "sum": lambda fw, x, other, n: x.sum(_dim(x, n[0])) if x.ndim else x.sum(),
    "clone": lambda fw, x, other, n: x.clone(),
    "index": lambda fw, x, other, n: x[_key(fw, x, n, basic=False)],
}


def _set(fw: Any, x: Any, other: Any, n: tuple[int, int, int]) -> Any:
    x[_key(fw, x, n, basic=False)] = other
    return None


def _add_to(fw: Any, x: Any, other: Any, n: tuple[int, int, int]) -> Any:
    x[_key(fw, x, n, basic=False)] += 1.5
    return None


WRITES: dict[str, Run] = {
    "copy_": lambda fw, x, other, n: x.copy_(other),
    "mul_": lambda fw, x, other, n: x.mul_(other),
    "add_": lambda fw, x, other, n: x.add_(other),
    "scale_": lambda fw, x, other, n: x.mul_(0.5),
    "exp_": lambda fw, x, other, n: x.mul_(0.1).exp_(),
    "fill_": lambda fw, x, other, n: x.fill_(0.25 + n[0] % 3),
    "zero_": lambda fw, x, other, n: x.zero_(),
    "setitem": lambda fw, x, other, n: x.__setitem__(_key(fw, x, n, basic=True), 1.25),
    "set": _set,
    "add_to": _add_to,
}
KINDS = [*VIEWS, *VALUES, *WRITES]


class Finding(AssertionError):
    """The frameworks differ."""


class Program:
    """A program while it runs in both frameworks.

    Args:
        ours, theirs: the frameworks.
        refused: the class of the errors by which ours refuses.
    """

    def __init__(self, ours: Any, theirs: Any, refused: type[Exception]) -> None:
        """Makes the tensors that a program begins with: three leaves that require grad, and two that do not."""
        self.ours, self.theirs, self.refused = ours, theirs, refused
        self.pool: list[Pair] = []
        self.done: Counter[str] = Counter()
        self.log: list[str] = []
        self._memory = 0
        for shape, requires_grad in (((3, 4), True), ((4,), True), ((), True), ((2, 3), False), ((2, 2, 3), False)):
            data = (np.arange(1, 1 + int(np.prod(shape))).reshape(shape) / 7).tolist()
            pair = [fw.tensor(data, dtype=fw.float64, requires_grad=requires_grad) for fw in (ours, theirs)]
            self._add(*pair, untracked=False, memory=None)
        self.leaves = self.pool[:3]

    def _add(self, ours: Any, theirs: Any, untracked: bool, memory: int | None, repeats: bool = False) -> None:
        if memory is None:
            memory = self._memory = self._memory + 1
        self.pool.append(Pair(ours, theirs, untracked, memory, repeats))

    def run(self, step: Step) -> None:
        """Takes a step in both frameworks.

        Raises:
            Finding: one refuses it, or the results differ.
        """
        x, other = (self.pool[n % len(self.pool)] for n in (step.tensor, step.other))
        table = VIEWS if step.kind in VIEWS else VALUES if step.kind in VALUES else WRITES
        if 0 in x.ours.shape or x.ours.ndim > 4 or (not x.ours.ndim and step.kind in _DIMS):
            return
        if step.kind in ("as_strided", "reshape") and not (x.ours.is_contiguous() and x.theirs.is_contiguous()):
            return  # whether it is a view, and of what, is a matter of how values lie in memory
        if table is WRITES and x.repeats and step.kind != "mul_":
            return  # which of these writes are refused, PyTorch decides from case to case
        operands = []
        for fw, tensor, second in ((self.ours, x.ours, other.ours), (self.theirs, x.theirs, other.theirs)):
            # What reads memory that it writes to is undefined in PyTorch; and an untracked view is read as a constant.
            if table is WRITES and other.memory == x.memory:
                second = second.detach().clone()
            operands.append((fw, tensor, second.detach() if other.untracked and not step.no_grad else second))
        if (
            table is WRITES
        ):  # PyTorch refuses one to a view whose node is out of date, unless somebody asked for the node
            _computed(x.theirs)
        results = self._both(step, table[step.kind], operands)
        self.log.append(f"{len(self.pool)}: {step} {'refused' if results is None else ''}")
        if results is None:
            self.done["refused"] += 1
            return
        self.done[step.kind] += 1
        if table is WRITES:
            self._same(x, f"after {step}")
            return
        several = isinstance(results[0], (tuple, list))
        for ours, theirs in zip(*results, strict=True) if several else [results]:
            is_view = theirs._is_view()  # an index may be one of ints and slices alone
            if table is VALUES and not is_view and (x.untracked or other.untracked):
                ours, theirs = ours.detach(), theirs.detach()
            shares = is_view or table is VIEWS
            untracked = is_view and (step.no_grad or x.untracked)
            repeats = shares and (x.repeats or step.kind == "expand")
            self._add(ours, theirs, untracked, x.memory if shares else None, repeats)
            self._same(self.pool[-1], f"after {step}")

    def _both(self, step: Step, run: Run, operands: list[Any]) -> tuple[Any, Any] | None:
        """Returns both results; None where both frameworks refuse."""
        results, errors = [], []
        for fw, *tensors in operands:
            try:
                with fw.set_grad_enabled(not step.no_grad):
                    results.append(run(fw, *tensors, step.numbers))
            except (RuntimeError, IndexError, ValueError) as error:
                if fw is self.ours and not isinstance(error, self.refused):
                    raise
                errors.append((fw.__name__, str(error).partition("\n")[0][:200]))
        if len(errors) == 1:
            raise Finding(f"{step}: refused by {errors[0][0]} alone: {errors[0][1]}\n" + "\n".join(self.log))
        return None if errors else (results[0], results[1])

    def _same(self, pair: Pair, when: str) -> None:
        ours, theirs = pair.ours, pair.theirs
        if tuple(ours.shape) != tuple(theirs.shape):
            raise Finding(f"{when}: shape {ours.shape}, theirs {tuple(theirs.shape)}\n" + "\n".join(self.log))
        if not np.allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-12, atol=1e-12):
            raise Finding(f"{when}: {ours}, theirs {theirs}\n" + "\n".join(self.log))

    def compare(self, chosen: list[int]) -> None:
        """Compares all values and flags, and the gradients of a sum of some tensors.

        Raises:
            Finding: something differs.
        """
        for i, pair in enumerate(self.pool):
            self._same(pair, f"at the end, tensor {i}")
            if not pair.untracked:
                self._flags(i, pair)
        losses = [self.leaves[2].ours * 0, self.leaves[2].theirs * 0]
        for k, number in enumerate(chosen):
            pair = self.pool[number % len(self.pool)]
            if pair.untracked:
                continue
            step = Step(f"loss of tensor {number % len(self.pool)}", 0, 0, (k, 0, 0), False)
            terms = self._both(
                step,
                lambda fw, x, _, n: (x * (n[0] + 2)).sum(),
                [(self.ours, pair.ours, None), (self.theirs, pair.theirs, None)],
            )
            if terms is not None:
                losses = [loss + term for loss, term in zip(losses, terms, strict=True)]
        step = Step("backward", 0, 0, (0, 0, 0), False)
        passed = self._both(
            step, lambda fw, loss, _, n: loss.backward(), [(self.ours, losses[0], None), (self.theirs, losses[1], None)]
        )
        self.done["backward" if passed is not None else "backward refused"] += 1
        if passed is None:
            return
        for i, leaf in enumerate(self.leaves):
            grads = [np.zeros(leaf.ours.shape) if t.grad is None else t.grad.numpy() for t in (leaf.ours, leaf.theirs)]
            if not np.allclose(*grads, rtol=1e-10, atol=1e-12):
                raise Finding(f"gradient of leaf {i}: {grads[0]}, theirs {grads[1]}\n" + "\n".join(self.log))

    def _flags(self, i: int, pair: Pair) -> None:
        flags = []
        for x in (pair.ours, pair.theirs):
            computed = _computed(x)
            flags.append((x.requires_grad, None if computed is None else x.is_leaf, computed, x._is_view()))
        if flags[0] != flags[1]:
            what = "(requires_grad, is_leaf, has a grad_fn, is a view)"
            raise Finding(f"tensor {i}: {what} {flags[0]}, theirs {flags[1]}\n" + "\n".join(self.log))


def _computed(x: Any) -> bool | None:
    """Returns whether a tensor has a ``grad_fn``; None where asking is refused."""
    try:
        return x.grad_fn is not None
    except RuntimeError:
        return None


_DIMS = {*VIEWS, "index", "setitem", "set", "add_to"} - {"unsqueeze", "detach", "expand"}
"""Steps that need a dim."""
