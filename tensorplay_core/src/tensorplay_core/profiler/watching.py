"""Who watches: the probes of a context and of the whole process, and what they are told beside the steps of calls.

A probe is called around every step, and may have more doors: ``block(name)`` and ``node(node)`` return the scope of a
named block and of a node of a backward pass, ``print(text)`` takes an event beside calls. A probe of a context asks the
one around it itself; those of the process are asked in turn.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack
from typing import Any

from tensorplay_core.dispatch import active
from tensorplay_core.dispatch.context import STATE

_switching = threading.RLock()
_everywhere: tuple[Any, ...] = ()


def doors(name: str) -> Iterator[Callable[..., Any]]:
    """Yields a method of the probes that watch here and have it: the process's first."""
    for probe in (active.probe, STATE.get().probe):
        if (door := getattr(probe, name, None)) is not None:
            yield door


def scopes(doors: Iterable[Callable[..., Any]], *arguments: Any) -> ExitStack:
    """Returns the scopes that doors open, entered; whoever gets them leaves them."""
    with ExitStack() as stack:
        for door in doors:
            stack.enter_context(door(*arguments))
        return stack.pop_all()


def apply(node: Any, grad: Any, graph: bool) -> Any:
    """Applies a node of a backward pass, as the engine would, inside the scopes of those who watch."""
    with scopes(doors("node"), node):
        return node.backward(grad, graph)


def tell(text: str) -> None:
    """Tells those who watch what happens beside calls."""
    for door in doors("print"):
        door(text)


def watch(on: bool) -> None:
    """Counts somebody who wants to be told of nodes and of what happens beside calls."""
    active.watch(on, apply, tell)


# ---------------------------------------------------------------------------------------------------- a whole process


class _Several:
    """The probes of a process, where there is more than one."""

    __slots__ = ("probes",)

    def __init__(self, probes: tuple[Any, ...]) -> None:
        self.probes = probes

    def __call__(self, *step: Any) -> AbstractContextManager[Any]:
        return _Scopes([probe(*step) for probe in self.probes])

    def block(self, name: str) -> AbstractContextManager[Any]:
        return _Scopes([probe.block(name) for probe in self.probes])

    def node(self, node: Any) -> AbstractContextManager[Any]:
        return _Scopes([probe.node(node) for probe in self.probes])

    def print(self, text: str) -> None:
        for probe in self.probes:
            if (door := getattr(probe, "print", None)) is not None:
                door(text)


class _Scopes:
    """Several scopes as one."""

    __slots__ = ("scopes", "stack")

    def __init__(self, scopes: list[Any]) -> None:
        self.scopes = scopes

    def __enter__(self) -> None:
        with ExitStack() as stack:
            for scope in self.scopes:
                stack.enter_context(scope)
            self.stack = stack.pop_all()

    def __exit__(self, *raised: Any) -> None:
        self.stack.__exit__(*raised)

    def returned(self, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        for scope in self.scopes:
            if (door := getattr(scope, "returned", None)) is not None:
                door(result, args, kwargs)


def watch_everywhere(on: bool, probe: Any) -> None:
    """Asks a probe around every step in the process, whatever the context, or no longer."""
    global _everywhere
    with _switching:
        _everywhere = (*_everywhere, probe) if on else tuple(one for one in _everywhere if one is not probe)
        active.add((True, False, False), 1 if on else -1)
        active.probe = _Several(_everywhere) if len(_everywhere) > 1 else _everywhere[0] if _everywhere else None


def is_everywhere(probe: Any) -> bool:
    """Whether a probe is asked in the whole process."""
    return any(one is probe for one in _everywhere)
