"""How much the conformance suite notices: plants mutations in array kernels and counts those that it kills.

Each mutation is made in a copy of the package, which the suite then runs over, on devices that come through the changed
line: ``loopback`` (the kernels over NumPy), ``strict`` (over array-api-strict, without NumPy's spellings and as if its
arrays were immutable) or ``cpu``. A first run with marked statements says which operators reach which line, so that a
mutation costs seconds. One that lives through ``--quick`` is tried with the whole suite.

Survivors that a person found to change nothing are in ``data/suite_mutations.yaml``, each with the reason; they are not
counted. Exit code 1 where less than ``--least`` of the others are killed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from suite_mutations_sites import Mutation, drawn, marked, sites
from suite_mutations_worker import LOADING, STRICT

from tensorplay_core.cli.waiting import Waiting

HERE = Path(__file__).parent
JUDGED = HERE / "data" / "suite_mutations.yaml"
PACKAGES = {
    "arrays": ("tensorplay_composite", "arrays/*.py", ("loopback", STRICT)),
    "cpu": ("tensorplay_cpu", "*.py", ("cpu",)),
}
"""What can be mutated: a package, its files, and the devices that run them."""
OTHERS = ("tensorplay_core", "tensorplay_composite", "tensorplay_cpu", "tensorplay_loopback")
STATEFUL = ("arrays/_support.py", "arrays/device.py", "arrays/math.py", "math.py")
"""Files whose functions remember: the operator that comes first to a line is not the only one that feels it."""
LIMIT, SLOWER = 60.0, 5
"""A run that takes so many seconds more than so many times what the whole quick run of the device took does not end."""


class Verdict(NamedTuple):
    """What became of a mutation.

    Attributes:
        mutation: the change.
        killed: the failure that the suite reported; empty where it reported none.
        device: where.
        how: "quick" or "whole"; "judged" for a survivor that changes nothing; "unreached" where no operator came
            through its line; "survived".
        seconds: how long it took.
        reason: why it changes nothing.
    """

    mutation: Mutation
    killed: str
    device: str
    how: str
    seconds: float
    reason: str = ""

    def as_dict(self) -> dict[str, Any]:
        one = self.mutation
        return {
            "place": one.place, "function": one.function, "kind": one.kind, "before": one.before, "after": one.after,
            "how": self.how, "killed": self.killed, "device": self.device, "seconds": round(self.seconds, 1),
            "reason": self.reason,
        }  # fmt: skip


class Laboratory:
    """A copy of the packages as they are now, so that nobody's edits get into a run, and the runs over it.

    Args:
        package: one of ``PACKAGES``.
        seed: the seed of the suite.
        operators: the only operators to run; None for all, and the checks of the device.
        quick: do not try the whole suite on what its quick run lets live.
    """

    def __init__(self, package: str, seed: int, operators: list[str] | None, quick: bool) -> None:
        self.name, self.pattern, self.devices = PACKAGES[package]
        self.seed, self.operators, self.quick = seed, operators, quick
        self._folder = tempfile.TemporaryDirectory(prefix="suite_mutations_")
        self.base = Path(self._folder.name) / "base"
        for one in OTHERS:
            spec = find_spec(one)
            assert spec is not None and spec.origin is not None
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(Path(spec.origin).parent, self.base / one, ignore=ignored)
        self.source = self.base / self.name
        self.reached: dict[str, dict[str, set[str]]] = {}
        self.seconds: dict[str, float] = {}

    def close(self) -> None:
        self._folder.cleanup()

    def suite(self, device: str, names: list[str] | None, *, quick: bool, changed: dict[str, bytes]) -> dict[str, Any]:
        """Runs the suite over a copy of the package in which some files are others; it counts as hung after a while."""
        limit = LIMIT + SLOWER * self.seconds[device] if device in self.seconds else None
        with tempfile.TemporaryDirectory(dir=self._folder.name) as folder:
            if changed:
                shutil.copytree(self.source, Path(folder) / self.name)
            for file, text in changed.items():
                (Path(folder) / self.name / file).write_bytes(text)
            path = os.pathsep.join([folder, str(self.base)])
            asked = json.dumps({"device": device, "seed": self.seed, "quick": quick, "names": names})
            try:
                done = subprocess.run(
                    [sys.executable, str(HERE / "suite_mutations_worker.py")], input=asked, text=True, cwd=folder,
                    capture_output=True, timeout=limit, check=False,
                    env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
                )  # fmt: skip
            except subprocess.TimeoutExpired:
                return {"failed": f"nothing came back within {limit:.0f} s" if quick else ""}
        lines = done.stdout.splitlines()
        if done.returncode or not lines:
            return {"failed": f"the process ended with {done.returncode}: {done.stderr.strip()[-200:]}"}
        return json.loads(lines[-1])  # type: ignore[no-any-return]

    def explore(self, device: str) -> None:
        """Finds out which operators of a device reach which statement; the suite must be content with all of it."""
        texts = {path.relative_to(self.source).as_posix(): path.read_text() for path in self.files()}
        changed = {file: marked(file, text).encode() for file, text in texts.items()}
        begin = time.perf_counter()
        found = self.suite(device, self.operators, quick=True, changed=changed)
        self.seconds[device] = time.perf_counter() - begin
        if found["failed"]:
            sys.exit(f"nothing is mutated, and the suite fails on {device}: {found['failed']}")
        self.reached[device] = {name: set(places) for name, places in found["reached"].items()}

    def files(self) -> list[Path]:
        return [path for path in self.source.glob(self.pattern) if path.suffix == ".py"]

    def concerned(self, device: str, one: Mutation) -> list[str] | None:
        """Returns the operators that reach a mutation, the likeliest first; None where the device does not."""
        reached, place = self.reached[device], f"{one.file}:{one.statement}"
        everything = [name for name in reached if name != LOADING]
        if one.statement == 0 or place in reached[LOADING]:
            names = everything
        else:
            names = [name for name in everything if place in reached[name]]
            if names and one.file in STATEFUL:
                names += [name for name in everything if name not in names]
        own = (one.hint, one.function.rpartition(".")[2])
        return sorted(names, key=lambda name: name.rstrip("_") not in own and name not in own) or None

    def judge(self, one: Mutation, reasons: dict[Any, str]) -> Verdict:
        """Runs the suite over a mutation, first quickly."""
        begin = time.perf_counter()
        changed = {one.file: one.applied((self.source / one.file).read_bytes())}
        concerned = {device: self.concerned(device, one) for device in self.devices}
        runs = [(device, names, True) for device, names in concerned.items() if names]
        if not self.quick:
            runs += [(device, names, False) for device, names, _ in runs[:1]]  # on one of them will do
        reason = reasons.get(key(one), "")
        for device, names, quick in runs:
            if not quick and reason:
                break
            if found := self.suite(device, names, quick=quick, changed=changed)["failed"]:
                how = "quick" if quick else "whole"
                return Verdict(one, found, device, how, time.perf_counter() - begin, reason)
        how = "judged" if reason else "survived" if runs else "unreached"
        return Verdict(one, "", "", how, time.perf_counter() - begin, reason)


def key(one: Mutation) -> tuple[str, str, str, str]:
    return one.file, one.function, one.before, one.after


def judged() -> dict[tuple[str, str, str, str], str]:
    """Returns the mutations that change nothing, with the reason."""
    found = yaml.safe_load(JUDGED.read_text()) or []
    return {(one["file"], one["function"], one["before"], one["after"]): one["reason"] for one in found}


class Bar(Waiting):
    """How far the run is, on a terminal."""

    patience = 0.3

    def __init__(self, total: int) -> None:
        super().__init__()
        self.total, self.done, self.what = total, 0, "finding out who reaches what"

    def step(self, what: str, done: int = 1) -> None:
        self.done, self.what = self.done + done, what
        self.changed()

    def columns(self) -> tuple[Any, ...]:
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn

        return BarColumn(24), TaskProgressColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False)

    def update(self, progress: Any, task: Any) -> None:
        progress.update(task, total=self.total, completed=self.done, description=self.what)


def experiment(args: argparse.Namespace) -> list[Verdict]:
    """Draws the mutations and judges them."""
    reasons = judged()
    laboratory = Laboratory(args.package, args.seed, args.op or None, args.quick)
    lock = threading.Lock()
    verdicts: list[Verdict] = []
    try:
        with Bar(args.count) as bar, ThreadPoolExecutor(args.jobs) as pool:
            list(pool.map(laboratory.explore, laboratory.devices))
            found = sites(laboratory.source, laboratory.pattern)
            if args.op:  # only what these come through
                found = [one for one in found if one.statement and reaches(laboratory, one)]

            def work(one: Mutation) -> None:
                verdict = laboratory.judge(one, reasons)
                with lock:
                    verdicts.append(verdict)
                    bar.step(f"{one.place}: {verdict.how}")
                    if args.verbose:
                        print(line(verdict), flush=True)

            list(pool.map(work, drawn(found, args.count, random.Random(args.seed))))
    finally:
        laboratory.close()
    return sorted(verdicts)


def reaches(laboratory: Laboratory, one: Mutation) -> bool:
    place = f"{one.file}:{one.statement}"
    return any(
        place in places
        for reached in laboratory.reached.values()
        for name, places in reached.items()
        if name != LOADING
    )


def line(verdict: Verdict) -> str:
    """Returns a verdict as one line."""
    one = verdict.mutation
    begin = f"{verdict.how:9} {one.place} {one.function}: {flat(one.before)} → {flat(one.after)}"
    return f"{begin} [{verdict.device} {flat(verdict.killed, 90)}]" if verdict.killed else begin


def flat(text: str, width: int = 100) -> str:
    text = " ".join(text.split())
    return text if len(text) <= width else text[: width - 1] + "…"


def report(verdicts: list[Verdict], seconds: float) -> dict[str, Any]:
    """Returns the counts and the verdicts as plain values."""
    killed = sum(bool(one.killed) for one in verdicts)
    same = sum(one.how == "judged" for one in verdicts)
    counted = len(verdicts) - same
    return {
        "mutations": len(verdicts), "killed": killed, "changing_nothing": same, "survived": counted - killed,
        "ratio": round(killed / counted, 4) if counted else 1.0, "seconds": round(seconds, 1),
        "verdicts": [one.as_dict() for one in verdicts],
    }  # fmt: skip


def show(found: dict[str, Any], verdicts: Iterable[Verdict], seed: int) -> None:
    for one in verdicts:
        if not one.killed:
            print(line(one))
            print(f"          {one.mutation.kind}" + (f"; {one.reason}" if one.reason else ""))
    counts = f"{found['killed']} of {found['mutations']} mutations killed, {found['changing_nothing']} change nothing"
    ratio = f"{found['survived']} survived: {100 * found['ratio']:.1f} %"
    print(f"{counts}, {ratio} in {found['seconds']:.0f} s (--seed {seed})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100, help="how many mutations (100)")
    parser.add_argument("--seed", type=int, help="which mutations, and the seed of the suite")
    parser.add_argument("--package", choices=PACKAGES, default="arrays", help="what is mutated (arrays)")
    parser.add_argument("--op", action="append", metavar="OP", help="only what this operator reaches; several times")
    parser.add_argument("--quick", action="store_true", help="do not try the whole suite on survivors of --quick")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many at once")
    parser.add_argument("--least", type=float, default=0.95, help="the ratio below which the exit code is 1 (0.95)")
    parser.add_argument("--json", action="store_true", help="print plain values")
    parser.add_argument("--verbose", action="store_true", help="print each mutation, also those that are killed")
    args = parser.parse_args()
    args.seed = secrets.randbits(16) if args.seed is None else args.seed
    begin = time.perf_counter()
    verdicts = experiment(args)
    found = report(verdicts, time.perf_counter() - begin)
    if args.json:
        print(json.dumps(found, indent=1))
    else:
        show(found, verdicts, args.seed)
    if found["ratio"] < args.least:
        sys.exit(1)


if __name__ == "__main__":
    main()
