"""What ``opcheck`` checks: does an operator do what it was registered to do?

Whatever a schema and a registration promise, and no call can afford to check, is checked on sample arguments: that
nothing is written to or shared that is not declared, that gradients are not lost and are right, that the fake tells
what the kernel returns, that the fast and the slow path agree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensorplay_core.autograd.api import grad
from tensorplay_core.autograd.gradcheck import gradcheck, gradgradcheck
from tensorplay_core.autograd.modes import enable_grad, no_grad
from tensorplay_core.autograd.node import NoFormula
from tensorplay_core.dispatch.key_set import KeySet
from tensorplay_core.dispatch.keys import DispatchKey, key_name
from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.dispatch.resolution import at_key
from tensorplay_core.errors import (
    AutogradError,
    KernelMissing,
    OpCheckError,
    TensorPlayError,
    fix,
)
from tensorplay_core.ops import call as slow
from tensorplay_core.ops.arguments import bind, named_tensors, plan_of, tensors_in
from tensorplay_core.ops.custom.kernels import shared, undeclared_alias
from tensorplay_core.tensor.tensor import Tensor, TensorBase
from tensorplay_core.tensor.version import version_of
from tensorplay_core.testing.slow_path import force_slow_path
from tensorplay_core.types.dtype import complex128, float64


class Call:
    """A call that is checked: it can be made again and again, each time on copies of the sample arguments.

    Args:
        op: the operator.
        args: its positional arguments, normalised.
        kwargs: its keyword-only ones.
        function: the public function, where it has one; what takes the fast path.
        tolerance: ``atol`` and ``rtol`` of the gradient check.
    """

    def __init__(
        self,
        op: Operator,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        function: Callable[..., Any] | None,
        tolerance: dict[str, Any],
    ) -> None:
        """See the class."""
        self.op, self.args, self.kwargs = op, args, kwargs
        self.function, self.tolerance = function, tolerance

    @property
    def writes(self) -> bool:
        """Whether the operator writes to an argument."""
        return bool(self.op.schema.mutates)

    @property
    def random(self) -> bool:
        """Whether two calls give different results."""
        return "random" in self.op.tags

    def copies(self, convert: Callable[[Tensor], Tensor]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns the arguments with every tensor converted; one that is there twice stays one."""
        made: dict[int, Any] = {}

        def converted(value: Any) -> Any:
            if value.__class__ is tuple:
                return tuple([converted(item) for item in value])
            if not isinstance(value, TensorBase):
                return value
            if id(value) not in made:
                made[id(value)] = convert(value)  # type: ignore[arg-type]  # a Tensor to the type checker
            return made[id(value)]

        return converted(self.args), {name: converted(value) for name, value in self.kwargs.items()}

    def kernel(self) -> str:
        """Names the kernel below the layers that serves the call, with its line."""
        keys = slow.key_set_of_call(self.op, self.args, self.kwargs)
        backend = keys.bits & ((1 << int(DispatchKey.Python)) - 1)
        found = at_key(self.op, KeySet(backend, keys.page).highest).registration
        return f"the kernel ({found.where})" if found is not None else "the kernel"

    def run(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls a function with copies of the arguments.

        Raises:
            OpCheckError: it wrote to one that the schema does not say it writes to.
        """
        op = self.op
        named = [(name, op.schema.argument(name.partition("[")[0]), t) for name, t in named_tensors(op, args, kwargs)]
        before = [(_bits(t), version_of(t)[0]) for _, _, t in named]
        result = function(*args, **kwargs)
        written = [t for _, argument, t in named if argument is not None and argument.is_write]
        for (name, _, t), old in zip(named, before, strict=True):
            if (_bits(t), version_of(t)[0]) == old or any(shared(t, other) for other in written):
                continue
            plain = name.partition("[")[0]
            raise self.fail(
                f"{self.kernel()} wrote to its argument {name}, which the schema does not declare: {op.schema}",
                f"declare it, with mutates_args={{{plain!r}}} or Tensor(a!) {plain} in a schema; or work on "
                f"{name}.clone().",
            )
        return result

    def fail(self, what: str, remedy: str) -> OpCheckError:
        """Returns the error for something that is not as it was registered."""
        return OpCheckError(f"{self.op.display_name}: {what}" + fix(remedy))


def _plain(x: Tensor) -> Tensor:
    return _like(x, x.detach().clone())


def _with_grad(x: Tensor) -> Tensor:
    return _plain(x).requires_grad_(x.requires_grad)


def _like(x: Tensor, copy: Tensor) -> Tensor:
    """Returns a copy that lies in memory as the sample does, where a copy can."""
    if copy.stride() != x.stride() and 0 not in x.stride():
        strides = x.stride()
        order = sorted(range(x.ndim), key=lambda dim: -strides[dim])
        dense = x.detach().permute(order).clone()
        copy = dense.permute([order.index(dim) for dim in range(x.ndim)]).detach()
    copy._version = None  # nobody else has its memory
    return copy


def _bits(x: Tensor) -> tuple[Any, ...]:
    host = x._type.api.to_host(x._array)
    return x.shape, x.dtype, host.tobytes()


def _results(result: Any) -> list[Tensor]:
    values = result if isinstance(result, (tuple, list)) else (result,)
    return list(tensors_in(tuple(tuple(v) if isinstance(v, list) else v for v in values), {}))


# ---------------------------------------------------------------------------------------------------------- the checks


def test_schema(call: Call) -> None:
    """Nothing is written to, and no memory is shared, that the schema does not declare."""
    op = call.op
    args, kwargs = call.copies(_plain)
    with no_grad():
        result = call.run(lambda *a, **k: slow.call(op, a, k), args, kwargs)
    if (found := undeclared_alias(op, result, args, kwargs)) is not None:
        what, remedy = found
        raise call.fail(f"{call.kernel()} is wrong: {what}, which the schema does not declare: {op.schema}", remedy)


def test_autograd_registration(call: Call) -> None:
    """What is differentiable records in Autograd, and nothing is recorded below it."""
    op = call.op
    if not any(t.requires_grad for t in tensors_in(call.args, call.kwargs)):
        return
    args, kwargs = call.copies(_with_grad)
    if call.writes:
        args, kwargs = call.copies(lambda x: _with_grad(x) * 1 if x.requires_grad else _plain(x))
    keys = slow.key_set_of_call(op, args, kwargs)
    below = _results(slow.redispatch(op, slow.below_autograd(keys), *call.copies(_plain)))
    if any(t._node is not None for t in below):
        raise call.fail(
            "its kernel returns a tensor that requires grad: something was recorded below Autograd, where the gradient "
            "of the inputs is lost",
            f'detach() what the kernel returns; give its gradient to register_autograd("{op.qualified_name}", ...).',
        )
    every = _results(call.run(lambda *a, **k: slow.call(op, a, k), args, kwargs))
    if not call.random and [_bits(t.detach()) for t in every] != [_bits(t) for t in below]:
        kernel = at_key(op, keys.highest).registration
        raise call.fail(
            f"its results are others when a gradient is recorded: what is at {key_name(keys.highest)} "
            f"({kernel.where if kernel is not None else 'none'}), or the setup_context there, changes them",
            "let it leave them as they are; what setup_context computes, it keeps on ctx.",
        )
    results = [t for t in every if t.dtype.is_inexact]
    silent = op.differentiable is not None and not any(op.differentiable)
    if results and not silent and not any(t.requires_grad for t in results):
        kernel = at_key(op, keys.highest).registration
        names = ", ".join(name for name, t in named_tensors(op, args, kwargs) if t.requires_grad)
        raise call.fail(
            f"{names} require{'s' * (',' not in names)} grad and no result does: the kernel at "
            f"{key_name(keys.highest)} ({kernel.where if kernel is not None else 'none'}) loses the gradient",
            f'register it with tp.library.register_autograd("{op.qualified_name}", backward, setup_context=...), '
            "rather than a kernel at Autograd.",
        )


def test_gradient(call: Call) -> None:
    """The gradient is that of the values, by finite differences in float64; so is the gradient of the gradient."""
    op = call.op
    inputs = [t for t in tensors_in(call.args, {}) if t.dtype.is_inexact]
    asked = any(t.requires_grad for t in inputs)
    if not inputs or call.writes or call.random or _has_no_gradient(op):
        return
    args, kwargs = call.copies(lambda x: _wide(x, x.requires_grad or not asked))
    leaves = list({id(t): t for t in tensors_in(args, {}) if t.requires_grad}.values())
    try:
        with enable_grad():
            outputs = [y for y in _results(slow.call(op, args, kwargs)) if y._node is not None]
    except TensorPlayError as error:
        raise call.fail(
            f"gradients are compared in float64, which it does not take: {error}",
            "let the kernel take float64 too, or leave test_gradient out of test_utils.",
        ) from error
    if any(_lacks_formula(y, op) for y in outputs):
        if asked:
            _explain_missing(call, outputs, leaves)
        return
    if outputs:
        _compare(call, args, kwargs, leaves)
        _check_gradients_stay(call, outputs, leaves)


def _compare(call: Call, args: tuple[Any, ...], kwargs: dict[str, Any], leaves: list[Tensor]) -> None:
    op = call.op
    places = {id(t): i for i, t in enumerate(leaves)}
    names = {places[id(t)]: name for name, t in named_tensors(op, args, kwargs) if id(t) in places}

    def function(*values: Tensor) -> tuple[Tensor, ...]:
        def put(value: Any) -> Any:
            if value.__class__ is tuple:
                return tuple([put(item) for item in value])
            return values[places[id(value)]] if id(value) in places else value

        return tuple(_results(slow.call(op, tuple(map(put, args)), kwargs)))

    listed = ", ".join(f"input {i} is {name}" for i, name in sorted(names.items()))
    remedy = f"compare the formula with the kernel; {listed}."
    try:
        gradcheck(function, leaves, **call.tolerance)
    except AutogradError as error:
        if "\nfix: " in str(error):  # not from the comparison: it says what to do
            raise OpCheckError(str(error)) from error
        raise call.fail(f"its gradient is wrong: {error}", remedy) from error
    try:
        right = gradgradcheck(function, leaves, raise_exception=False, **call.tolerance)
    except TensorPlayError:
        return  # it says that it cannot be differentiated twice, which is no wrong gradient
    if not right:
        try:
            gradgradcheck(function, leaves, **call.tolerance)
        except AutogradError as error:
            raise call.fail(
                f"the gradient of its gradient is wrong: {error}",
                f"write backward in operators that record, without detach() or NumPy; {listed}.",
            ) from error


def _check_gradients_stay(call: Call, outputs: list[Tensor], leaves: list[Tensor]) -> None:
    """Refuses a backward that writes to the gradients it is given: the nodes of other operators may have them too."""
    given = [y.new_ones(y.shape) for y in outputs]
    before = list(map(_bits, given))
    grad(outputs, leaves, given, allow_unused=True)
    if list(map(_bits, given)) != before:
        raise call.fail(
            "its backward wrote to a gradient that it was given, which other nodes may be given too",
            "compute a new array: grad.numpy() * 2 rather than array *= 2.",
        )


def _wide(x: Tensor, wanted: bool) -> Tensor:
    if not x.dtype.is_inexact:
        return _plain(x)
    return _plain(x).to(complex128 if x.is_complex() else float64).detach().requires_grad_(wanted)


def _has_no_gradient(op: Operator) -> bool:
    return op.differentiable is not None and not any(op.differentiable)


def _lacks_formula(y: Tensor, op: Operator) -> bool:
    node = y._node
    while node is not None and node.edges and type(node).__name__ == "Output":
        node = node.edges[0]
    return isinstance(node, NoFormula) and node.operator is op


def _explain_missing(call: Call, outputs: list[Tensor], leaves: list[Tensor]) -> None:
    try:
        grad(outputs, leaves, [y.new_ones(y.shape) for y in outputs], allow_unused=True)
    except AutogradError as error:
        raise OpCheckError(str(error)) from error


def test_fake(call: Call) -> None:
    """The result for tensors without data has the shape, dtype and strides of the real one."""
    op = call.op
    args, kwargs = call.copies(_plain)
    if not list(tensors_in(args, kwargs)):
        return
    args, kwargs = call.copies(lambda x: _plain(x).to("meta"))
    name = op.qualified_name
    remedy = f'register one: @tp.library.register_fake("{name}"), a function that returns tp.empty_like(...) or so.'
    try:
        with no_grad():
            fake = slow.call(op, args, kwargs)
    except KernelMissing as error:
        if "register_fake" in str(error):
            raise OpCheckError(str(error)) from error
        raise call.fail(f"it has no fake, which tells the result without data: {error}", remedy) from error
    kernel = at_key(op, int(DispatchKey.Meta)).registration
    where = f" ({kernel.where})" if kernel is not None else ""
    with no_grad():
        real = slow.call(op, *call.copies(_plain))
    fakes, reals = _results(fake), _results(real)
    if len(fakes) != len(reals):
        raise call.fail(
            f"its fake{where} returns {len(fakes)} tensors, its kernel {len(reals)}", "make the fake return as many."
        )
    for i, (told, was) in enumerate(zip(fakes, reals, strict=True)):
        which = f" for result {i}" if len(reals) > 1 else ""
        for what, a, b in [
            ("device", told.device.type, "meta"),
            ("shape", told.shape, was.shape),
            ("dtype", told.dtype.name, was.dtype.name),
            ("strides", _strides(told), _strides(was)),
        ]:
            if a != b:
                wanted = "a fake's tensors are on meta" if what == "device" else f"what the kernel returns has {b}"
                raise call.fail(f"its fake{where} gives the {what} {a}{which}, and {wanted}", "correct the fake.")


def _strides(x: Tensor) -> tuple[int, ...]:
    """Returns the strides that mean something: of dims with more than one element."""
    return () if 0 in x.shape else tuple(s for s, size in zip(x.stride(), x.shape, strict=True) if size > 1)


def test_fast_path(call: Call) -> None:
    """The fast path gives the same bits as the slow one, in results, in what is written to, and in gradients."""
    if call.random:
        return
    function = call.function if call.function is not None else lambda *a, **k: slow.call(call.op, *bind(call.op, a, k))
    in_python = {name: spelled for spelled, name in plan_of(call.op).spelled.items()}

    def outcome(convert: Callable[[Tensor], Tensor]) -> list[tuple[Any, ...]]:
        args, kwargs = call.copies(convert)
        keywords = {in_python.get(name, name): value for name, value in kwargs.items()}
        result = _results(call.run(lambda *a, **_: function(*a, **keywords), args, kwargs))
        found = [_bits(t.detach()) for t in (*result, *tensors_in(args, kwargs))]
        roots = [y for y in result if y.requires_grad and not _lacks_formula(y, call.op)]
        leaves = [t for t in tensors_in(args, kwargs) if t.requires_grad and t.is_leaf]
        if roots and leaves:
            ones = [y.new_ones(y.shape) for y in roots]
            found += [_bits(g) for g in grad(roots, leaves, ones, allow_unused=True) if g is not None]
        return found

    for convert in (_plain, *((_with_grad,) if not call.writes else ())):
        with force_slow_path():
            expected = outcome(convert)
        for _ in range(3):  # the first call fills the slot that the second takes
            if outcome(convert) != expected:
                raise call.fail(
                    "the fast and the slow path give different bits",
                    "if the operator is random, tag it so: tags=('random',); else it depends on more than its inputs.",
                )


TESTS: dict[str, Callable[[Call], None]] = {
    "test_schema": test_schema,
    "test_autograd_registration": test_autograd_registration,
    "test_gradient": test_gradient,
    "test_fake": test_fake,
    "test_fast_path": test_fast_path,
}
ALL = tuple(TESTS)
