"""Batching rules that programs register for an operator."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from tensorplay_core.dispatch.key_set import KeySet
from tensorplay_core.dispatch.library import Library
from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.dispatch.wrapped import levels_in
from tensorplay_core.errors import ArgumentError, TransformError, fix
from tensorplay_core.ops.arguments import tensors_in
from tensorplay_core.ops.custom.registration import Op, find, library_for
from tensorplay_core.ops.levels import below
from tensorplay_core.ops.rule_results import in_dims_of, info_of, wrap_result
from tensorplay_core.tensor.wrappers import is_of, unwrap

Rule = Callable[..., Any]


def register_vmap(
    op: Op, func: Rule | None = None, /, *, lib: Library | None = None, override: bool = False
) -> Rule | Callable[[Rule], Rule]:
    """Says what an operator does to a batch under ``vmap``.

    Args:
        op: the operator.
        func: ``func(info, in_dims, *args, **kwargs)`` returns ``(output, out_dims)``. ``info`` has ``batch_size`` and
            ``randomness``; ``in_dims`` says for each positional argument where the batch is, None for one without, and
            ``out_dims`` the same of the result. Left out, a decorator is returned.
        lib: what the registration leaves with; it stays for the process when None.
        override: may replace what another owner registered.

    Raises:
        RegistrationError: no such operator, or another owner has a rule for it.
        ArgumentError: ``func`` is no function.

    Example:
        >>> import tensorplay as tp
        >>> @tp.library.custom_op("demo::total", mutates_args=())
        ... def total(x: tp.Tensor) -> tp.Tensor:
        ...     return x.sum()
        >>> @tp.library.register_vmap("demo::total")
        ... def rule(info, in_dims, x):
        ...     return x.movedim(in_dims[0], 0).reshape(info.batch_size, -1).sum(1), 0
        >>> tp.vmap(total)(tp.ones(2, 3))
        tensor([3., 3.])
    """
    frame = sys._getframe(1)
    where = f"{frame.f_code.co_filename}:{frame.f_lineno}"
    owner = str(frame.f_globals.get("__name__"))

    def register(rule: Rule) -> Rule:
        vmap_at(find(op), rule, owner, where, lib, override)
        return rule

    return register if func is None else register(func)


def vmap_at(op: Operator, rule: Any, owner: str, where: str, lib: Library | None, override: bool = False) -> None:
    """Registers a rule, for callers who know whose it is."""
    if not callable(rule):
        raise ArgumentError(f"register_vmap: the rule is a function, not {rule!r}" + fix("see its Args."))
    library = library_for(op, owner, lib)
    kernel = _kernel(op, rule)
    library.impl_at(op.qualified_name, kernel, ["Vmap"], where, override=override, level="tensor", with_keyset=True)


def _kernel(op: Operator, rule: Rule) -> Callable[..., Any]:
    def vmap(keys: KeySet, *args: Any, **kwargs: Any) -> Any:
        level = levels_in(tensors_in(args, kwargs))
        assert level is not None
        dims = in_dims_of(level, args)
        if any(is_of(level, tensor) and tensor._array.batched for tensor in tensors_in((), kwargs)):
            raise TransformError(
                f"vmap: {op.display_name}: a keyword-only tensor is batched, which a rule is not told of"
                + fix("make it a positional argument of the operator.")
            )
        inside, keywords = unwrap(level, args), {name: unwrap(level, value) for name, value in kwargs.items()}
        with below(level):
            returned = rule(info_of(level), dims, *inside, **keywords)
        return wrap_result(op.display_name, level, returned)

    vmap.__qualname__ = f"vmap({getattr(rule, '__name__', 'rule')})"
    return vmap
