"""``opcheck``: the checks of :mod:`~tensorplay_core.testing.opcheck_tests`, on arguments that stay as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.errors import ArgumentError, OpCheckError, TensorPlayError, did_you_mean, fix
from tensorplay_core.ops.arguments import bind, normalise
from tensorplay_core.ops.custom.registration import find
from tensorplay_core.ops.packets import OpPacket
from tensorplay_core.ops.typing_rules import scalars_to_tensors
from tensorplay_core.testing.opcheck_tests import ALL, TESTS, Call

SUCCESS = "SUCCESS"


def _chosen(test_utils: str | Sequence[str]) -> tuple[str, ...]:
    names = (test_utils,) if isinstance(test_utils, str) else tuple(test_utils)
    if names in (("ALL",), ("all",)):
        return ALL
    for name in names:
        if name not in TESTS:
            near = did_you_mean(str(name), TESTS) or f" There are: {', '.join(ALL)}."
            raise ArgumentError(f"opcheck: there is no test {name!r}.{near}")
    return names


def _call(op: Any, args: Sequence[Any], kwargs: dict[str, Any], tolerance: dict[str, Any]) -> Call:
    """Returns the call that some arguments mean; of several overloads the one that the dispatcher picks."""
    several = isinstance(op, OpPacket) and len(op.overloads()) > 1
    public = any(other.function is op for other in REGISTRY.operators.values() if other.function is not None)
    if several or public:
        from tensorplay_core.ops.explain_call import find_call

        try:
            found = find_call(op, tuple(args), kwargs)
        except ArgumentError as error:
            raise ArgumentError(str(error).replace("explain: ", "opcheck: ", 1)) from error
        operator, positional, keywords = found.op, found.args, found.kwargs
    else:
        operator = find(op)
        positional, keywords = normalise(operator, *bind(operator, tuple(args), kwargs))
        positional = scalars_to_tensors(operator, positional)
    return Call(operator, positional, keywords, op if public else operator.function, tolerance)


def _raised(call: Call, error: Exception) -> str:
    """Returns what is said of an exception that is none of ours: whose operator's, what, and the line that raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f" ({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})" if trace is not None else ""
    return f"{call.op.display_name}: {type(error).__name__}: {error}{where}"


def opcheck(
    op: Any,
    args: Sequence[Any],
    kwargs: dict[str, Any] | None = None,
    *,
    test_utils: str | Sequence[str] = ALL,
    raise_exception: bool = True,
    atol: float | None = None,
    rtol: float | None = None,
) -> dict[str, str]:
    """Checks that an operator does what it was registered to do, on sample arguments, which stay as they are.

    Args:
        op: what ``custom_op`` returned, an operator of ``tp.ops``, a function such as ``tp.add``, or a name.
        args: positional arguments. Tensors that require grad have their gradients checked.
        kwargs: keyword-only arguments.
        test_utils: which tests to run: ``test_schema`` (nothing undeclared is written to or shared),
            ``test_autograd_registration`` (no gradient is lost), ``test_gradient`` (against finite differences, twice),
            ``test_fake`` (``register_fake`` tells the truth), ``test_fast_path`` (it agrees with the slow one).
        raise_exception: raise at the first test that fails, rather than return its message.
        atol: absolute tolerance of the gradient check.
        rtol: relative tolerance of the gradient check.

    Returns:
        For each test ``"SUCCESS"`` or what is wrong.

    Raises:
        OpCheckError: a test failed: the operator, the argument, the kernel's line, and the remedy.

    Example:
        >>> import tensorplay as tp
        >>> @tp.library.custom_op("doc_check::bad", mutates_args=())
        ... def bad(x: tp.Tensor) -> tp.Tensor:
        ...     return x.add_(1).clone()
        >>> found = tp.library.opcheck(bad, (tp.ones(2),), test_utils="test_schema", raise_exception=False)
        >>> print(found["test_schema"])
        doc_check::bad: the kernel (...) wrote to its argument x, which the schema does not declare: ...
        fix: declare it, with mutates_args={'x'} or Tensor(a!) x in a schema; or work on x.clone().
    """
    if not isinstance(args, (list, tuple)):
        raise ArgumentError(
            f"opcheck: args is a tuple of the positional arguments, not {type(args).__name__}"
            + fix("write (x,), with a comma, for one argument.")
        )
    tolerance = {name: value for name, value in (("atol", atol), ("rtol", rtol)) if value is not None}
    tests = _chosen(test_utils)
    call = _call(op, args, kwargs or {}, tolerance)
    found = {}
    for name in tests:
        try:
            TESTS[name](call)
            found[name] = SUCCESS
        except Exception as error:
            message = str(error) if isinstance(error, TensorPlayError) else _raised(call, error)
            if raise_exception:
                raise OpCheckError(f"opcheck: {name} failed: {message}") from error
            found[name] = message
    return found
