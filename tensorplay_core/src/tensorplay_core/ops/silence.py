"""Why NumPy's floating-point warnings do not reach the user: the modules that call raw kernels have no name in C.

NumPy reports ``log(0)`` through the C form of ``warnings.warn``. That drops a warning without asking any filter when
the calling frame's global ``__name__`` is None. ``numpy.errstate`` costs more than a small operation, ``numpy.seterr``
holds for one thread and changes the user's own code, and a filter is undone by ``catch_warnings``.
"""

from __future__ import annotations

from types import ModuleType


class SilentModule(ModuleType):
    """A module whose functions cannot warn; it still has its name for everybody who asks the module itself."""

    @property
    def __name__(self) -> str:
        spec = self.__spec__
        assert spec is not None
        return spec.name

    @__name__.setter
    def __name__(self, name: str) -> None:
        vars(self)["__name__"] = name  # importlib.reload gives a module its name back before it runs it again


def silence(module: ModuleType) -> None:
    """Makes the warnings that C code attributes to a module's functions vanish."""
    module.__class__ = SilentModule
    vars(module)["__name__"] = None
