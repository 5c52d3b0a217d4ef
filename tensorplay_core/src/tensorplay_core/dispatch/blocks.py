"""``library_impl`` blocks: how a plugin registers its kernels, and how a program does before it has a library.

A plugin's blocks are collected while its module is imported and applied to a staging batch afterwards, even if somebody
imported the module earlier; outside a plugin a block is applied at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from tensorplay_core.dispatch.emitters import Emit
from tensorplay_core.dispatch.operator import location
from tensorplay_core.dispatch.registry import REGISTRY
from tensorplay_core.dispatch.staging import Staging

if TYPE_CHECKING:
    from tensorplay_core.dispatch.below import Below

_collecting: ContextVar[list[Block] | None] = ContextVar("tensorplay_collecting", default=None)

_unclaimed: dict[str, list[Block]] = {}
"""Blocks of plugins that somebody imported outside a load, by top-level package."""


class BlockLibrary:
    """The ``m`` of a ``library_impl`` block: registers kernels for one key."""

    def __init__(self, staging: Staging, key: str, block: str = "") -> None:
        """See the class."""
        self._staging = staging
        self._block = block
        self.key = key

    def impl(
        self,
        op: str,
        fn: Callable[..., Any],
        *,
        override: bool = False,
        level: str | None = None,
        with_keyset: bool = False,
    ) -> None:
        """Registers a kernel.

        Args:
            op: the operator's name, such as ``"add"`` or ``"max.dim"``.
            fn: the kernel; at a backend key it takes raw arrays, elsewhere tensors.
            override: may take a slot that another owner has.
            level: ``"tensor"`` for a backend kernel that takes tensors.
            with_keyset: the kernel's first argument is the call's key set, to redispatch with.
        """
        self._staging.impl(
            op,
            self.key,
            fn,
            override=override,
            level=level,
            with_keyset=with_keyset,
            where=location(fn),
            block=self._block,
        )

    def emitter(self, emit: Emit, *, override: bool = False) -> None:
        """Registers what makes kernels of the operators that are given by ``math`` alone.

        Args:
            emit: takes a :class:`~tensorplay_core.types.program.Program` and returns a kernel, which takes what other
                kernels at this key take, or None where it cannot make one.
            override: may stand beside another owner's emitter, above it.
        """
        self._staging.emitter(self.key, emit, override=override, where=location(emit), block=self._block)

    def below(self, op: str) -> Below:
        """Returns what lies beneath this block's kernel of an operator, as a callable for that kernel to call.

        What that is, the call decides: another backend's kernel, an emitted one, or Composite's, with arrays made into
        tensors and back. It follows what is registered, undone and unloaded. See :class:`Below`.

        Args:
            op: the operator's name.

        Example:
            >>> import tensorplay as tp
            >>> from tensorplay_core.dispatch.library import collect, library_impl
            >>> with collect():
            ...     @library_impl("CPU", "Checked")
            ...     def _(m):
            ...         kernel = m.below("log")
            ...         def log(self):
            ...             if (self < 0).any():
            ...                 raise ValueError("log of a negative number")
            ...             return kernel(self)
            ...         m.impl("log", log, override=True)
        """
        return self._staging.below(op, self.key, where=location(None), block=self._block)

    def without_composite(self, op: str) -> None:
        """Has no kernel for an operator, and refuses the Composite one: a call is KernelMissing.

        For an operator that this device cannot serve, or whose Composite kernel would be wrong or slow on it.

        Args:
            op: the operator's name.
        """
        self._staging.without_composite(op, self.key, where=location(None), block=self._block)


class Block:
    """A ``library_impl`` block that waits for its staging batch."""

    def __init__(self, key: str, name: str, function: Callable[[Any], None]) -> None:
        """See the class."""
        self.key = key
        self.name = name
        self.function = function
        self.where = location(function)

    def apply(self, staging: Staging) -> None:
        """Adds the block's kernels to a batch."""
        name = f" {self.name!r}" if self.name != "_" else ""
        self.function(BlockLibrary(staging, self.key, f", in the block{name} at {self.where}"))


@contextmanager
def collect() -> Iterator[list[Block]]:
    """While open, ``library_impl`` blocks of this context are collected rather than applied."""
    blocks: list[Block] = []
    token = _collecting.set(blocks)
    try:
        yield blocks
    finally:
        _collecting.reset(token)


def is_plugin(module: str) -> bool:
    """Whether a module belongs to an installed plugin; the plugins floor replaces this by the true answer.

    Until then no operator is defined either, so every block must wait.
    """
    return True


def plugin_of(module: str) -> tuple[str, str, int] | None:
    """Returns whose plugin a module belongs to, its distribution and its priority; None for a module of no plugin.

    The plugins floor replaces this by the true answer.
    """
    return None


def batch(module: str) -> Staging:
    """Returns a batch for what a module registers at run time.

    A plugin's module registers as its plugin. Any other is the user's: it asked last and by hand, so what it registers
    with ``override=True`` lies above every plugin's, whatever their priorities.
    """
    package = module.partition(".")[0]
    plugin = None if package in ("__main__", "tensorplay_core") else plugin_of(module)
    if plugin is None:
        return REGISTRY.stage(module, package, run_time=True)
    return REGISTRY.stage(*plugin)


def apply_now(block: Block, module: str) -> None:
    """Puts the kernels of a block into force, as the registrations of a module that belongs to no plugin."""
    staging = REGISTRY.stage(module, module.partition(".")[0], run_time=True)
    block.apply(staging)
    staging.commit()


def apply_waiting() -> None:
    """Applies the blocks that waited for the operators to be defined and belong to no plugin."""
    for package in [name for name in _unclaimed if not is_plugin(name)]:
        for block in claim(package):
            apply_now(block, package)


def claim(module: str) -> list[Block]:
    """Returns the blocks of a plugin whose module was imported before its backend was loaded, by anybody, once."""
    return _unclaimed.pop(module.partition(".")[0], [])


def library_impl(key: str, name: str = "") -> Callable[[Callable[[Any], None]], Callable[[Any], None]]:
    """Marks a function that registers kernels for one dispatch key.

    Args:
        key: a dispatch key's name (``"CPU"``, ``"Composite"``, ``"Autograd"`` …) or a device's type.
        name: the block's name, for messages.

    Example:
        >>> import operator
        >>> from tensorplay_core.dispatch.library import collect, library_impl
        >>> with collect() as blocks:
        ...     @library_impl("CPU", "PointwiseCPU")
        ...     def _(m):
        ...         m.impl("add", operator.add)
        >>> blocks[0].name
        'PointwiseCPU'
    """

    def register(function: Callable[[Any], None]) -> Callable[[Any], None]:
        block = Block(key, name or function.__name__, function)
        module = getattr(function, "__module__", "__main__")
        collecting = _collecting.get()
        if collecting is not None:
            collecting.append(block)
        elif is_plugin(module):
            _unclaimed.setdefault(module.partition(".")[0], []).append(block)
        else:
            apply_now(block, module)
        return function

    return register
