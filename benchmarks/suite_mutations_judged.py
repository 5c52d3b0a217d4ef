"""What a person found out about mutations that the suite lets live: ``data/suite_mutations.yaml``, read and written.

An entry speaks of one mutation of one text of one function, wherever that function stands in its file. It expires when
the function changes, for then nobody has looked at it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from suite_mutations_sites import Identity, Mutation

EQUIVALENT, COST, SURVIVES = "equivalent", "cost only", "survives"
VERDICTS = {
    EQUIVALENT: "nothing that it changes can be seen",
    COST: "it changes how long a call takes, or how much memory it borrows while it runs, and nothing else",
    SURVIVES: "it changes something that the suite does not look at; it counts as one that lives",
}
"""What an entry can say of a mutation. The first two are not counted as survivors."""


class Entry(NamedTuple):
    """What was found out about a mutation.

    Attributes:
        verdict: one of ``VERDICTS``.
        reason: why, so that a reader can check it.
    """

    verdict: str
    reason: str


def judged(path: Path) -> dict[Identity, Entry]:
    """Reads the file.

    Raises:
        ValueError: an entry lacks something, has something else besides, or is there twice.
    """
    found: dict[Identity, Entry] = {}
    for one in yaml.safe_load(path.read_text()) or []:
        values = dict(one)
        entry = Entry(values.pop("verdict", ""), values.pop("reason", ""))
        try:
            identity = Identity(**values)
        except TypeError as error:
            raise ValueError(f"{path}: {one} is no entry: {error}") from None
        if entry.verdict not in VERDICTS or not entry.reason.strip():
            raise ValueError(f"{path}: {one} needs a reason, and a verdict, which is one of {', '.join(VERDICTS)}")
        if identity in found:
            raise ValueError(f"{path}: {one} is there twice")
        found[identity] = entry
    return found


def expired(entries: Mapping[Identity, Entry], sites: Iterable[Mutation]) -> list[Identity]:
    """Returns the entries of files that were looked through whose mutation there is no more."""
    sites = list(sites)
    known, files = {one.identity for one in sites}, {one.file for one in sites}
    return [one for one in entries if one.file in files and one not in known]


def entry_text(one: Mutation, verdict: str = SURVIVES, reason: str = "") -> str:
    """Returns an entry as the file has it, to be completed with a reason."""
    values: dict[str, Any] = {**one.identity._asdict(), "verdict": verdict, "reason": reason}
    if not one.nth:
        del values["nth"]
    return yaml.safe_dump([values], sort_keys=False, allow_unicode=True, width=120)
