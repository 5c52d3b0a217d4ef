"""Runs the targets: writes what changed, or says what would.

Every target's text is made before the first file is written, so an error leaves the folders as they were.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path

import attrs

from tensorplay_core.codegen import files
from tensorplay_core.codegen.collector import without_collector
from tensorplay_core.codegen.context import CodegenContext
from tensorplay_core.errors import ArgumentError, ContractError, did_you_mean

_EVERY_TARGET = (
    "schemas",
    "functional",
    "inplace",
    "nodes",
    "autograd",
    "forward",
    "methods",
    "install",
    "meta",
    "autocast",
    "overloads",
    "documentation",
)
TARGETS = tuple(t for t in _EVERY_TARGET if (Path(__file__).parent / "targets" / f"{t}.py").exists())
PREFIX = files.PREFIX
Progress = Callable[[str, int, int], None]
"""Is told what is made, how much of it is done, and how much there is."""


@attrs.frozen
class Result:
    """What a run did or found; files go by their names, those outside ``ops`` with their folder in front.

    Attributes:
        written: files that were, or would be, written.
        removed: generated files that no target makes any more.
        unchanged: files that are as they should be.
        diffs: unified differences from what is on disk, when only checking.
        handwritten: functions that are written by hand.
        targets: target to its files.
        files: path to text, of every file as it should be.
    """

    written: tuple[str, ...]
    removed: tuple[str, ...]
    unchanged: tuple[str, ...]
    diffs: tuple[str, ...]
    handwritten: tuple[str, ...]
    targets: dict[str, tuple[str, ...]]
    files: dict[Path, str] = attrs.field(repr=False)

    @property
    def clean(self) -> bool:
        """Whether nothing had to change."""
        return not self.written and not self.removed


@attrs.frozen
class File:
    """One file that a target makes.

    Attributes:
        target, folder, name: who makes it, and where: a name of ``context.folders`` and a path in it.
        path: the place on disk.
        text: its contents.
    """

    target: str
    folder: str
    name: str
    path: Path
    text: str

    @property
    def label(self) -> str:
        """What reports call it."""
        return self.name if self.folder == "ops" else f"{self.folder}/{self.name}"


def made(context: CodegenContext, targets: Iterable[str] = TARGETS, progress: Progress | None = None) -> list[File]:
    """Returns every file of some targets, those left out whose folder the context does not have.

    Raises:
        ArgumentError: there is no such target.
        ContractError: two targets make one file, a fault of the generator.
    """
    result: list[File] = []
    owners: dict[Path, str] = {}
    targets = tuple(targets)
    for number, target in enumerate(targets):
        if target not in TARGETS:
            near = did_you_mean(target, TARGETS)
            raise ArgumentError(f"there is no target {target!r}.{near} Targets: {', '.join(TARGETS)}")
        if progress is not None:
            progress(target, number, len(targets))
        module = import_module(f"tensorplay_core.codegen.targets.{target}")
        folder = getattr(module, "FOLDER", "ops")
        where = context.folders.get(folder)
        if where is None:
            continue
        for name, text in module.generate(context):
            path = where / name
            if path in owners:
                raise ContractError(f"{path} is made twice, by target {owners[path]} and by target {target}")
            owners[path] = target
            result.append(File(target, folder, name, path, text))
    return result


def texts(context: CodegenContext, targets: Iterable[str] = TARGETS) -> dict[str, str]:
    """Returns the text of every file of some targets, by name.

    Raises:
        ArgumentError: there is no such target.
        ContractError: a text is not Python, which is a fault of the generator or of a record.
    """
    found = made(context, targets)
    for file in found:
        _check_python(file)
    return {file.label: file.text for file in found}


def _check_python(file: File) -> None:
    if not file.name.endswith(".py"):
        return
    try:
        compile(file.text, file.name, "exec", dont_inherit=True)
    except SyntaxError as error:
        raise ContractError(f"target {file.target} makes a {file.name} that is not Python: {error}") from error


@without_collector()
def generate(
    context: CodegenContext,
    targets: Iterable[str] = TARGETS,
    *,
    check: bool = False,
    progress: Progress | None = None,
) -> Result:
    """Brings the generated files up to date.

    Args:
        context: what to generate from, and where to.
        targets: which targets; all by default.
        check: write nothing, only compare.
        progress: is told of each step.

    Raises:
        ContractError: a folder belongs to an installed package, which the generator never changes.
    """
    targets = tuple(targets)
    folders = {name: folder for name, folder in context.folders.items() if folder is not None}
    if not check:
        files.refuse_installed(folders.values())
    new = made(context, targets, progress)
    if progress is not None:
        progress("files", len(targets), len(targets))
    old: dict[Path, tuple[str, str]] = {}
    for name, folder in folders.items():
        for inside, text in files.on_disk(folder, docs=name == "docs").items():
            old.setdefault(folder / inside, (inside if name == "ops" else f"{name}/{inside}", text))
    changed = [f for f in new if f.path not in old or old[f.path][1] != f.text]
    for file in changed:  # one that is on disk already was compiled when it was written
        _check_python(file)
    whole = set(targets) == set(TARGETS)
    gone = sorted(set(old) - {f.path for f in new}) if whole else []
    diffs = []
    if check:
        diffs += [files.difference(f.label, old.get(f.path, ("", ""))[1], f.text) for f in _sorted(changed)]
        diffs += [files.difference(*old[path], "") for path in gone]
    else:
        for file in changed:
            files.write(file.path, file.text)
        for path in gone:
            path.unlink()
    return Result(
        written=tuple(f.label for f in _sorted(changed)),
        removed=tuple(sorted(old[path][0] for path in gone)),
        unchanged=tuple(sorted({f.label for f in new} - {f.label for f in changed})),
        diffs=tuple(diffs),
        handwritten=tuple(context.handwritten),
        targets={t: tuple(sorted(f.label for f in new if f.target == t)) for t in targets},
        files={f.path: f.text for f in new},
    )


def _sorted(found: Iterable[File]) -> list[File]:
    return sorted(found, key=lambda file: file.label)


def main(arguments: list[str] | None = None) -> int:
    """Generates our own files; ``--check`` compares. The command line proper is ``tensorplay codegen``."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if not {*arguments} <= {"--check"}:
        sys.stderr.write("usage: python -m tensorplay_core.codegen.generate [--check]\n")
        return 2
    result = generate(CodegenContext.load(), check="--check" in arguments)
    for diff in result.diffs:
        sys.stdout.write(diff)
    for name in (*result.written, *result.removed):
        sys.stdout.write(f"{name}\n")
    return 1 if "--check" in arguments and not result.clean else 0


if __name__ == "__main__":
    sys.exit(main())


__all__ = ["PREFIX", "TARGETS", "File", "Progress", "Result", "generate", "made", "main", "texts"]
