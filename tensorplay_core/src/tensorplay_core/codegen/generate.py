"""Runs the targets: writes what changed, or says what would.

Every target's text is made before the first file is written, so an error leaves the folder as it was; a file whose text
is the same is not touched, so its time stamp stays.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable
from importlib import import_module

import attrs

from tensorplay_core.codegen.context import CodegenContext
from tensorplay_core.errors import ArgumentError, ContractError, did_you_mean

TARGETS = ("schemas", "functional", "inplace", "nodes", "autograd", "methods")
PREFIX = "_generated_"
INSTALLED = {"site-packages", "dist-packages"}
"""Folders of installed packages."""


@attrs.frozen
class Result:
    """What a run did or found.

    Attributes:
        written: files that were, or would be, written.
        removed: generated files that no target makes any more.
        unchanged: files that are as they should be.
        diffs: unified differences from what is on disk, when only checking.
        handwritten: functions that are written by hand.
    """

    written: tuple[str, ...]
    removed: tuple[str, ...]
    unchanged: tuple[str, ...]
    diffs: tuple[str, ...]
    handwritten: tuple[str, ...]

    @property
    def clean(self) -> bool:
        """Whether nothing had to change."""
        return not self.written and not self.removed


def texts(context: CodegenContext, targets: Iterable[str] = TARGETS) -> dict[str, str]:
    """Returns the text of every file of some targets, by name.

    Raises:
        ArgumentError: there is no such target.
        ContractError: a text is not Python, which is a fault of the generator or of a record.
    """
    result: dict[str, str] = {}
    for target in targets:
        if target not in TARGETS:
            near = did_you_mean(target, TARGETS)
            raise ArgumentError(f"there is no target {target!r}.{near} Targets: {', '.join(TARGETS)}")
        module = import_module(f"tensorplay_core.codegen.targets.{target}")
        for name, text in module.generate(context):
            try:
                compile(text, name, "exec")
            except SyntaxError as error:
                raise ContractError(f"target {target} makes a {name} that is not Python: {error}") from error
            result[name] = text
    return result


def generate(context: CodegenContext, targets: Iterable[str] = TARGETS, *, check: bool = False) -> Result:
    """Brings the generated files up to date.

    Args:
        context: what to generate from, and where to.
        targets: which targets; all by default.
        check: write nothing, only compare.

    Raises:
        ContractError: the folder belongs to an installed package, which the generator never changes.
    """
    targets = tuple(targets)
    new = texts(context, targets)
    if not check and INSTALLED & set(context.out.resolve().parts):
        raise ContractError(f"{context.out} is an installed package; the generator writes to source folders only")
    old = {p.name: p.read_text(encoding="utf-8") for p in context.out.glob(f"{PREFIX}*.py")}
    written = sorted(name for name, text in new.items() if old.get(name) != text)
    removed = sorted(name for name in old if name not in new) if set(targets) == set(TARGETS) else []
    diffs = []
    for name in (*written, *removed):
        if check:
            lines = difflib.unified_diff(
                old.get(name, "").splitlines(keepends=True),
                new.get(name, "").splitlines(keepends=True),
                f"{name} (on disk)",
                f"{name} (from the contract)",
            )
            diffs.append("".join(lines))
        elif name in new:
            context.out.mkdir(parents=True, exist_ok=True)
            (context.out / name).write_text(new[name], encoding="utf-8", newline="\n")
        else:
            (context.out / name).unlink()
    unchanged = sorted(name for name in new if name not in written)
    return Result(tuple(written), tuple(removed), tuple(unchanged), tuple(diffs), tuple(context.handwritten))


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


__all__ = ["PREFIX", "TARGETS", "Result", "generate", "main", "texts"]
