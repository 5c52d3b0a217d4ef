"""What went wrong in a plugin's own code, put into words for its user.

Anything may be raised there: an exception without a text or with a page of it, one whose ``str`` raises, a group, a
missing library. Whatever it is, the reason names it, says where, and ends in something that the reader can do.
"""

from __future__ import annotations

import os
import re
import sys
import traceback

from tensorplay_core.errors import TensorPlayError, did_you_mean
from tensorplay_core.plugins.records import BackendRecord, canonical, install_hint

LONGEST = 1000
"""How many characters of a foreign exception's text a reason shows; all of it is in the record's traceback."""

_LIBRARY = re.compile(
    r"(?P<linux>\S+): cannot open shared object file"
    r"|Library not loaded: (?P<macos>\S+)"
    r"|dlopen\((?P<dlopen>[^,)]+)[,)]"
    r"|(?:DLL load failed while importing|Could not find module) '?(?P<windows>[^\s:']+)"
)


def explain(record: BackendRecord, stage: str, error: BaseException) -> tuple[str, str]:
    """Returns why a step of loading failed, and the remedy.

    Args:
        record: of the backend that was being loaded.
        stage: the step, as in ``record.stage``.
        error: what came out of the plugin's code.
    """
    steps = {"import": "its module raised", "unload": "its tensorplay_unload raised"}
    return f"{steps.get(stage, f'it failed at its {stage} step:')} {what(record, error, stage)}", remedy(record, error)


def what(record: BackendRecord, error: BaseException, stage: str = "") -> str:
    """Returns an exception's class, its text and, at the end of the first line, the place in the plugin's code."""
    first, *others = _text(error).split("\n")
    module = record.info.module if stage == "import" else ""  # importing a file may fail before any line of it runs
    place = _place(record, error) or (module and f"at the import of {module}")
    inner = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    lines = [*others, *(f"- {_text(one).splitlines()[0]}" for one in inner)]
    return "\n  ".join([f"{first} ({place})" if place else first, *filter(str.strip, lines)])


def remedy(record: BackendRecord, error: BaseException) -> str:
    """Returns what the user can do: what the exception itself says, else what its kind allows to say."""
    own = _message(error).partition("\nfix: ")[2]
    distribution = record.info.distribution
    return own or _missing(record, error) or (
        f"report it to the authors of {distribution}{where_to_read(record)}, with the text of tensorplay.backends.info("
        f"{record.name!r}).traceback; when it is mended, call tensorplay.backends.refresh()"
    )  # fmt: skip


def not_mine(record: BackendRecord) -> str:
    """Returns the way for those who did not write the plugin."""
    return f", or report it to the authors of {record.info.distribution}{where_to_read(record)}"


def where_to_read(record: BackendRecord) -> str:
    """Returns the plugin's address in brackets, where it gives one."""
    return f" ({record.info.url})" if record.info.url else ""


def _text(error: BaseException) -> str:
    message = _message(error).partition("\nfix: ")[0]
    if len(message) > LONGEST and not isinstance(error, TensorPlayError):
        message = f"{message[:LONGEST].rstrip()} … ({len(message):,} characters, whole in its traceback)"
    return f"{type(error).__name__}: {message}" if message.strip() else type(error).__name__


def _message(error: BaseException) -> str:
    if isinstance(error, SyntaxError) and error.filename and error.msg:
        return str(error.msg)  # without the place, which comes in a form of its own
    try:
        return str(error)
    except BaseException as another:  # SystemExit too: it would end the program in place of being told
        return f"(no text: its __str__ raised {type(another).__name__})"


def _missing(record: BackendRecord, error: BaseException) -> str:
    distribution = record.info.distribution
    documented = f"as {distribution} documents{where_to_read(record)}"
    as_documented = f"{documented}, then call tensorplay.backends.refresh()"
    name = (error.name or "") if isinstance(error, ImportError) else ""
    own = record.info.module.partition(":")[0].strip()
    if isinstance(error, ModuleNotFoundError) and name:
        if own == name or own.startswith(f"{name}."):
            stale = "its metadata is stale or its files are incomplete"
            return f"{stale}: reinstall {distribution}, or pip uninstall {distribution}{_elsewhere(own)}"
        if name.startswith(f"{own.partition('.')[0]}."):
            return f"its files are incomplete: reinstall {distribution}{not_mine(record)}{_elsewhere(own)}"
        if canonical(distribution) == f"tensorplay-{record.name}" and install_hint(record.name):
            return install_hint(record.name)
        package = name.partition(".")[0]
        if package in sys.modules:
            return f"use a release of {package!r} that has the module {name!r}, {documented}, and start Python anew"
        return f"install the package with the module {name!r}, {as_documented}"
    found = _LIBRARY.search(_message(error)) if isinstance(error, (ImportError, OSError)) else None
    if found is not None:
        return f"install the system library {next(filter(None, found.groups()))!r}, {as_documented}"
    if name and name.partition(".")[0] != own.partition(".")[0]:
        return f"use a release of {name.partition('.')[0]!r} that works, {documented}, and start Python anew"
    return ""


def _elsewhere(module: str) -> str:
    """Returns where Python found a plugin's package: another one of that name, in the current folder, may hide it."""
    top = module.partition(".")[0]
    folders = [*getattr(sys.modules.get(top), "__path__", ())]
    if not folders:
        return ""
    return f"; Python found {top!r} in {folders[0]}: if that is another package, start Python from another folder"


def missing_attribute(record: BackendRecord, plugin: object, name: str) -> tuple[str, str]:
    """Returns what is wrong with an entry point whose value names nothing in its module, and the remedy."""
    hint = did_you_mean(name, [known for known in dir(plugin) if not known.startswith("_")])
    where = record.info.module.partition(":")[0].strip()
    reason = f"the entry point value {record.info.module!r} names nothing: {where} has no attribute {name!r}.{hint}"
    return reason, f"correct the value in the metadata of {record.info.distribution} and reinstall it"


def _place(record: BackendRecord, error: BaseException) -> str:
    if isinstance(error, SyntaxError) and error.filename:
        return f"{_short(error.filename)}:{error.lineno}"
    top = record.info.module.partition(":")[0].strip().partition(".")[0]
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if top in frame.filename.replace(os.sep, "/").split("/")]
    own = own or [frame for frame in frames if os.path.basename(frame.filename) == f"{top}.py"]
    return f"{_short(own[-1].filename)}:{own[-1].lineno}" if own else ""


def _short(filename: str) -> str:
    for folder in sorted(filter(None, sys.path), key=len, reverse=True):
        if filename.startswith(folder.rstrip(os.sep) + os.sep):
            return os.path.relpath(filename, folder)
    return filename
