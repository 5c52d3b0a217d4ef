"""``tensorplay backends new``: the distribution of a backend, written so that it installs and passes from the start.

The files are templates below ``templates``, laid out as they are written. Everything is checked before anything is
written, and the whole project appears at once: a folder that is half written would be worse than none.
"""

from __future__ import annotations

import ast
import keyword
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

import click

from tensorplay_core import __version__
from tensorplay_core.cli.common import (
    Command,
    console,
    json_option,
    plural,
    print_json,
    readable,
    usage_error,
)
from tensorplay_core.errors import RegistrationError, ValueRangeError, fix

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

ARRAY_MODULE, CUSTOM = KINDS = ("array-module", "custom")
SUFFIX = ".tmpl"
"""Ends the name of a template, so that no tool takes it for what it will be."""
NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
"""A device's name that also makes a good name of a distribution and of a package."""
MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
NUMPY = "numpy>=2.1"
PURPOSE = {
    "pyproject.toml": "the distribution and its entry points",
    "README.md": "for whoever finds it",
    "ci.yml": "the tests, on GitHub's machines",
    "__init__.py": "the package",
    "backend.yaml": "what is known before it runs",
    "plugin.py": "the backend: its kernels and hooks",
    "device.py": "its arrays, and all that is asked of it",
    "kernels.py": "its kernels",
    "conformance.py": "what it does not do, with reasons",
    "test_conformance.py": "the conformance suite, on the device",
}
"""A word about each file, by its name, in the order in which they are told."""


@click.command(cls=Command)
@click.argument("name")
@click.option(
    "--kind", type=click.Choice(KINDS), default=ARRAY_MODULE, show_default=True,
    help="Over a module like NumPy, or with an array class and kernels of its own.",
)  # fmt: skip
@click.option("--module", metavar="MODULE", help="The module of an array-module: numpy, cupy …  [default: numpy]")
@click.option("--path", type=click.Path(path_type=Path), help="The folder to make.  [default: tensorplay-NAME]")
@json_option
def new(name: str, kind: str, module: str | None, path: Path | None, as_json: bool) -> None:
    """Start a backend of your own.

    Writes the distribution of a device NAME that works and passes the conformance suite, with kernels to replace one by
    one. What exists is never overwritten.
    """
    _check_name(name)
    if module is not None and kind != ARRAY_MODULE:
        usage_error(f"--module is for --kind {ARRAY_MODULE}: a {kind} backend has arrays of its own")
    module = "numpy" if module is None else module
    if not MODULE.fullmatch(module) or any(map(keyword.iskeyword, module.split("."))):
        near = _nearest_module(module)
        hint = f" Did you mean {near!r}?" if near not in ("", module) else ""
        usage_error(f"{module!r} is not the name of a module.{hint}")
    _check_free(name)
    folder = path or Path(f"tensorplay-{name.replace('_', '-')}")
    if os.path.lexists(folder):
        raise ValueRangeError(
            f"{folder} exists, and nothing is overwritten" + fix("remove it, or name another folder with --path")
        )
    files = project(name, kind, module)
    try:
        write(folder, files)
    except OSError as error:
        raise ValueRangeError(
            f"{folder} cannot be written: {error.strerror}" + fix("name another folder with --path")
        ) from error
    _tell(name, kind, module, folder, [*files], as_json)


def _check_name(name: str) -> None:
    """Ends the command where a name is no device's name, with the nearest that is."""
    if NAME.fullmatch(name) and len(name) <= 60:
        return
    stem = re.sub(r"^tensorplay[-_. ]+", "", name.lower())
    near = re.sub(r"[^a-z0-9]+", "_", stem.encode("ascii", "ignore").decode()).strip("_0123456789")[:60].strip("_")
    hint = f" Did you mean {near!r}?" if near else ""
    usage_error(
        f"{name!r} cannot be the name of a device: that is lower-case letters, digits and single underscores, "
        f"with a letter first, 60 at most.{hint}"
    )


def _check_free(name: str) -> None:
    """Refuses a name that belongs to somebody.

    Raises:
        ValueRangeError: it is core's, a dispatch key's, one of our distributions', or that of an installed backend.
    """
    from importlib import metadata

    from tensorplay_core.dispatch.keys import assign_page
    from tensorplay_core.plugins import public
    from tensorplay_core.plugins.records import OURS

    another = fix("choose another name")
    try:
        if assign_page(name) == 0:
            raise ValueRangeError(f"the device {name!r} has a dispatch key of TensorPlay's own" + another)
    except RegistrationError as error:
        raise ValueRangeError(str(error) + another) from error
    if name in OURS or name == "core":
        raise ValueRangeError(f"tensorplay-{name} is a distribution of TensorPlay itself" + another)
    for record in public.list(load=False):
        if record.name == name:
            label = record.info.label
            raise ValueRangeError(
                f"a backend {name!r} is installed already: {label}" + _other(record.info.distribution)
            )
    distribution = f"tensorplay-{name.replace('_', '-')}"
    try:
        version = metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return
    raise ValueRangeError(f"{distribution} {version} is installed already" + _other(distribution))


def _other(distribution: str) -> str:
    return fix(f"choose another name, or pip uninstall {distribution} first")


def _nearest_module(module: str) -> str:
    words = [re.sub(r"\W+", "_", word.strip()).strip("_") for word in module.replace("/", ".").split(".")]
    near = ".".join(word for word in words if word and not word[0].isdigit())
    return near if MODULE.fullmatch(near) else ""


def project(name: str, kind: str, module: str = "numpy") -> dict[str, str]:
    """Returns the files of a new backend's distribution, by their paths in its folder.

    Args:
        name: the device's name.
        kind: ``"array-module"`` or ``"custom"``.
        module: the array module of the former; it is not imported.

    Example:
        >>> files = project("npx", "array-module")
        >>> print(files["src/tensorplay_npx/__init__.py"], end="")
        \"\"\"The device ``npx`` for TensorPlay; its backend is in ``plugin``.\"\"\"
    """
    from importlib.resources import files

    root = files("tensorplay_core.cli") / "templates"
    package = f"tensorplay_{name}"
    templates = {**dict(_templates(root / "common")), **dict(_templates(root / kind))}
    arrays = f"the arrays of {module}" if kind == ARRAY_MODULE else "arrays of its own"
    values = {
        "name": name,
        "version": __version__,
        "package": package,
        "distribution": package.replace("_", "-"),
        "title": "".join(word.capitalize() for word in name.split("_")),
        "module": module,
        "summary": f"the device {name}, with {arrays}",
        "dependencies": _dependencies(module),
        "gaps": "".join(
            f'        "{operator}": "no kernel yet",\n' for operator in (_gaps(templates) if kind == CUSTOM else ())
        ),
    }
    return {
        path.replace("PACKAGE", package): Template(text).substitute(values) for path, text in sorted(templates.items())
    }


def _templates(folder: Traversable, above: str = "") -> Iterator[tuple[str, str]]:
    for entry in folder.iterdir():
        path = f"{above}{entry.name}"
        if entry.is_dir():
            yield from _templates(entry, f"{path}/")
        elif path.endswith(SUFFIX):
            yield path.removesuffix(SUFFIX), entry.read_text(encoding="utf-8")


def _dependencies(module: str) -> str:
    """Returns the lines of what the distribution needs: ours, and what brings the array module, if that is known."""
    from importlib import metadata

    top = module.partition(".")[0]
    bring = dict.fromkeys(metadata.packages_distributions().get(top, ()))
    theirs = [NUMPY] if top == "numpy" else [f"{name}>={metadata.version(name)}" for name in bring]
    lines = [f"tensorplay-core>={__version__}", f"tensorplay-composite>={__version__}", *theirs]
    unknown = "" if theirs else f"\n  # and the distribution that {top} is from, which is not installed here"
    return "\n".join(f'  "{line}",' for line in lines) + unknown


def _gaps(templates: Mapping[str, str]) -> list[str]:
    """Returns the operators that neither the templates' kernels nor Composite serve, and that they do not name."""
    import tensorplay_core.ops.load  # noqa: F401  the operators
    from tensorplay_core.dispatch.registry import REGISTRY

    named = {
        node.value
        for path, text in templates.items()
        if path.endswith(("/kernels.py", "/conformance.py"))
        for node in ast.walk(ast.parse(Template(text).safe_substitute(name="x", package="x", gaps="")))
        if isinstance(node, ast.Constant)
    }
    return [
        op.display_name
        for op in REGISTRY.operators.values()
        if op.namespace == "tp" and op.functional is None and op.composite == "none"
        if op.display_name not in named and not op.display_name.startswith("_")
    ]


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Writes files into a new folder, all or none; folders above it are made where they are missing.

    Raises:
        OSError: it cannot be written, or exists by now. Nothing is left behind.
    """
    first = target = folder.absolute()
    while not os.path.lexists(first.parent):
        first = first.parent
    made = Path(tempfile.mkdtemp(prefix=".tensorplay-new-", dir=first.parent))
    try:
        whole = made / first.name
        for path, text in files.items():
            file = whole / target.relative_to(first) / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        whole.rename(first)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _tell(name: str, kind: str, module: str, folder: Path, files: list[str], as_json: bool) -> None:
    place = shlex.quote(str(folder))
    following = [f"pip install -e {place} pytest", f"tensorplay backends check {name}", f"pytest {place}"]
    if as_json:
        print_json({
            "name": name, "kind": kind, "module": module if kind == ARRAY_MODULE else None, "folder": str(folder),
            "files": files, "next": following,
        })  # fmt: skip
        return
    out = console()
    out.print(readable(out, f"{folder}: {plural(len(files), 'file')}"), markup=False, soft_wrap=True)
    order = [*PURPOSE]
    width = max(map(len, files)) + 2
    for path in sorted(files, key=lambda path: order.index(path.rpartition("/")[2])):
        line = f"  {path.ljust(width)}{PURPOSE[path.rpartition('/')[2]]}"
        out.print(line, markup=False, soft_wrap=True)
    out.print("\nnext:")
    for command in following:
        out.print(f"  {readable(out, command)}", markup=False, soft_wrap=True)
