"""``--namespace MODULE``: a command on a device that is made of an array module, for this one run.

A device of :func:`tensorplay.backends.from_namespace` lives in the process that makes it, so a command makes its own.
What was typed and means nothing ends with exit code 2; a module that is there and breaks is a finding.
"""

from __future__ import annotations

import re
from typing import Any

import click

from tensorplay_core.cli.common import usage_error

NAMESPACE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")

namespace_option = click.option(
    "--namespace", metavar="MODULE",
    help="Make a device of this array module first, such as array_api_strict or jax.numpy (device jax_numpy).",
)  # fmt: skip


def backend_of(name: str | None, namespace: str | None) -> str:
    """Returns the backend that a command is about: the one it names, or the one that it makes of a module."""
    if namespace is not None:
        return device_over(namespace, name)
    if name is None:
        usage_error("Missing argument 'NAME': a backend that 'tensorplay backends list' shows, or --namespace MODULE.")
    return name


def device_over(namespace: str, name: str | None = None) -> str:
    """Makes a device of an array module and returns its name.

    Args:
        namespace: the module's name, as in an import.
        name: the device's; None for the module's, with an underscore for each dot.

    Raises:
        BackendError: the module is there and cannot be imported.
        UsageError: there is no such module, it is not NumPy-like, or the name is taken.
    """
    from tensorplay_core.errors import ArgumentError, ValueRangeError
    from tensorplay_core.plugins import public

    xp = _imported(namespace)
    name = default_name(namespace) if name is None else name
    if any(record.name == name and record.made is None for record in public.list(load=False)):
        usage_error(f"--namespace {namespace}: a backend {name!r} is installed; give the device another name")
    try:
        public.from_namespace(xp, name)
    except (ArgumentError, ValueRangeError) as error:
        usage_error(f"--namespace {namespace}: {str(error).removeprefix('from_namespace: ')}")
    return name


def default_name(namespace: str) -> str:
    """Returns the name of the device that a command makes of a module, where it is given none.

    Example:
        >>> default_name("jax.numpy")
        'jax_numpy'
    """
    return namespace.replace(".", "_").lower()


def _imported(namespace: str) -> Any:
    """Returns a module by its name."""
    from importlib import import_module

    from tensorplay_core.errors import BackendError, fix

    if not NAMESPACE.fullmatch(namespace):
        usage_error(f"--namespace {namespace}: that is not the name of a module, such as jax.numpy")
    try:
        return import_module(namespace)
    except (Exception, SystemExit) as error:
        missing = getattr(error, "name", None) if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and f"{namespace}.".startswith(f"{missing}."):
            usage_error(
                f"--namespace {namespace}: there is no module {missing!r} in this environment (a file of the current "
                "folder is found with PYTHONPATH=.)"
            )
        raise BackendError(
            f"--namespace {namespace}: the module cannot be imported: {type(error).__name__}: {error}"
            + fix(f"look at the whole of it: python -c 'import {namespace}'.")
        ) from error
