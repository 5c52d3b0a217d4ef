"""How much the conformance suite notices: plants mutations in array kernels and counts those that it kills.

Each mutation is made in a copy of the package, which the suite then runs over, on devices that come through the changed
line: ``loopback`` (the kernels over NumPy), ``strict`` (over array-api-strict, with what the standard leaves open done
otherwise than by NumPy), ``narrow`` (the same with 32 bits, and NaN where others raise), ``fixed`` (NumPy, as if its
arrays were immutable) or ``cpu``, which has bfloat16. A first run with marked statements says which operators reach
which line, so that a mutation costs seconds. One that lives through ``--quick`` is tried with the whole suite.

Survivors that a person found to be equivalent are in ``data/suite_mutations.yaml``, each with the reason; the figure is
the share of all others that were killed. ``--entries`` prints what is new as entries for that file. Exit code 1 where
the figure is less than ``--least``.
"""

from __future__ import annotations

import argparse
import compileall
import json
import math
import multiprocessing
import os
import random
import secrets
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from suite_mutations_judged import COST, EQUIVALENT, Entry, entry_text, expired, judged
from suite_mutations_sites import Identity, Mutation, drawn, marked, sites
from suite_mutations_worker import FIXED, LOADING, NARROW, STRICT, answer

from tensorplay_core.cli.waiting import Waiting

HERE = Path(__file__).parent
JUDGED = HERE / "data" / "suite_mutations.yaml"
CPU = "cpu"
PACKAGES = {
    "arrays": ("tensorplay_composite", "arrays/*.py", ("loopback", STRICT, NARROW, FIXED, CPU)),
    "cpu": ("tensorplay_cpu", "*.py", (CPU,)),
}
"""What can be mutated: a package, its files, and the devices that run them."""
OTHERS = ("tensorplay", "tensorplay_core", "tensorplay_composite", "tensorplay_cpu", "tensorplay_loopback")
ONLY = {
    NARROW: ("arrays/_support.py", "arrays/creation.py", "arrays/device.py", "arrays/factorization.py"),
    FIXED: ("arrays/creation.py", "arrays/device.py", "arrays/scatter.py"),
}
"""Devices after the first that are there for the sake of some files."""
LONG = "memory"
"""The check that comes last, as it takes as long as many others."""
STATEFUL = ("arrays/_support.py", "arrays/device.py", "arrays/math.py", "math.py")
"""Files whose functions remember: the operator that comes first to a line is not the only one that feels it."""
LIMIT, SLOWER, WAITING = 90, 10, 5
"""A run counts as one without an end after so many seconds of processor time, so many times what as many operators took
in the quick run of the device if that is more; or after so many times that without coming back, as two threads that
wait for each other.
"""
FORKED = multiprocessing.get_context("forkserver")
"""Where a run's process comes from: one that has imported the suite, and nothing that can be mutated."""


class Verdict(NamedTuple):
    """What became of a mutation.

    Attributes:
        mutation: the change.
        killed: the failure that the suite reported; empty where it reported none.
        device: where.
        how: "quick" or "whole", whichever run killed it; "equivalent" or "cost only" for one that lives and was judged
            so; "survived"; "unreached" where no operator came through its line.
        seconds: how long it took.
        reason: what was found out about it.
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
        trust: do not run what was judged equivalent or a matter of cost.
    """

    def __init__(self, package: str, seed: int, operators: list[str] | None, quick: bool, trust: bool) -> None:
        self.name, self.pattern, self.devices = PACKAGES[package]
        self.seed, self.operators, self.quick, self.trust = seed, operators, quick, trust
        self._folder = tempfile.TemporaryDirectory(prefix="suite_mutations_")
        self.base = Path(self._folder.name) / "base"
        for one in OTHERS:
            spec = find_spec(one)
            assert spec is not None and spec.origin is not None
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(Path(spec.origin).parent, self.base / one, ignore=ignored)
        os.environ.update(PYTHONPATH=os.pathsep.join([str(self.base), str(HERE)]), PYTHONDONTWRITEBYTECODE="1")
        FORKED.set_forkserver_preload(["suite_mutations_worker"])
        compileall.compile_dir(self.base, quiet=2)  # a changed file is compiled anew, as it is younger
        self.source = self.base / self.name
        self.reached: dict[str, dict[str, set[str]]] = {}
        self.seconds: dict[str, float] = {}

    def close(self) -> None:
        self._folder.cleanup()

    def suite(self, device: str, names: list[str] | None, *, quick: bool, changed: dict[str, bytes]) -> dict[str, Any]:
        """Runs the suite over a copy of the package in which some files are others; it counts as hung after a while."""
        limit = 0
        if device in self.seconds:
            share = 1.0 if names is None else len(names) / len(self.reached[device])
            limit = max(LIMIT, round(SLOWER * share * self.seconds[device]))
        with tempfile.TemporaryDirectory(dir=self._folder.name) as folder:
            if changed:
                shutil.copytree(self.source, Path(folder) / self.name)
            for file, text in changed.items():
                (Path(folder) / self.name / file).write_bytes(text)
            asked = {"device": device, "seed": self.seed, "quick": quick, "names": names, "seconds": limit}
            receiving, sending = FORKED.Pipe(duplex=False)
            process = FORKED.Process(target=answer, args=(sending, folder, str(self.base), asked), daemon=True)
            process.start()
            sending.close()  # so that a process which ends without a word is noticed
            try:
                if not receiving.poll(WAITING * limit or None):
                    return {"failed": f"nothing came back within {WAITING * limit} s"}
                return receiving.recv()  # type: ignore[no-any-return]
            except EOFError:
                process.join()
                return {"failed": f"the process ended with {process.exitcode}"}
            finally:
                process.kill()
                process.join()
                receiving.close()

    def explore(self, device: str) -> None:
        """Finds out which operators of a device reach which statement; the suite must be content with all of it."""
        texts = {path.relative_to(self.source).as_posix(): path.read_text() for path in self.files()}
        changed = {file: marked(file, text).encode() for file, text in texts.items()}
        found = self.suite(device, self.operators, quick=True, changed=changed)
        if found["failed"]:
            sys.exit(f"nothing is mutated, and the suite fails on {device}: {found['failed']}")
        self.seconds[device] = found["seconds"]
        self.reached[device] = {name: set(places) for name, places in found["reached"].items()}
        if not any(self.reached[device].values()):
            sys.exit(f"no operator of {device} comes through {self.pattern}: another copy of the package was run")

    def files(self) -> list[Path]:
        return [path for path in self.source.glob(self.pattern) if path.suffix == ".py"]

    def concerned(self, device: str, one: Mutation) -> list[str] | None:
        """Returns the operators that reach a mutation, the likeliest first; None where the device does not."""
        if device != self.devices[0] and one.file not in ONLY.get(device, (one.file,)):
            return None
        reached, place = self.reached[device], f"{one.file}:{one.statement}"
        everything = [name for name in reached if name != LOADING]
        if one.statement == 0 or place in reached[LOADING]:
            names = everything
        else:
            names = [name for name in everything if place in reached[name]]
            if names and one.file in STATEFUL:
                names += [name for name in everything if name not in names]
        own = (one.hint, one.function.rpartition(".")[2])

        def unlikely(name: str) -> tuple[bool, bool, float]:
            lines = [
                int(line) for file, _, line in (place.partition(":") for place in reached[name]) if file == one.file
            ]
            far = min((abs(line - one.line) for line in lines), default=math.inf)
            return name == LONG, name.rstrip("_") not in own and name not in own, far

        return sorted(names, key=unlikely) or None

    def judge(self, one: Mutation, entries: dict[Identity, Entry]) -> Verdict:
        """Runs the suite over a mutation, first quickly; the whole suite only where nobody has judged it."""
        begin = time.perf_counter()
        verdict, reason = entries.get(one.identity, ("", ""))
        if self.trust and verdict in (EQUIVALENT, COST):
            return Verdict(one, "", "", verdict, 0.0, reason)
        changed = {one.file: one.applied((self.source / one.file).read_bytes())}
        concerned = {device: self.concerned(device, one) for device in self.devices}
        runs = [(device, names, True) for device, names in concerned.items() if names]
        if not self.quick:
            whole = {device: names for device, names, _ in runs if device in (runs[0][0], CPU)}
            runs += [(device, names, False) for device, names in whole.items()]
        for device, names, quick in runs:
            if not quick and verdict:
                break
            if found := self.suite(device, names, quick=quick, changed=changed)["failed"]:
                how = "quick" if quick else "whole"
                return Verdict(one, found, device, how, time.perf_counter() - begin, reason)
        how = verdict if verdict in (EQUIVALENT, COST) else "survived" if runs else "unreached"
        return Verdict(one, "", "", how, time.perf_counter() - begin, reason)


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


def experiment(args: argparse.Namespace) -> tuple[list[Verdict], list[Identity]]:
    """Draws the mutations and judges them; returns the verdicts, and the entries that have expired."""
    entries = judged(JUDGED)
    laboratory = Laboratory(args.package, args.seed, args.op or None, args.quick, args.trust)
    lock = threading.Lock()
    verdicts: list[Verdict] = []
    try:
        found = sites(laboratory.source, laboratory.pattern)
        old = expired(entries, found)
        if args.file:
            known = sorted({one.file for one in found})
            if wrong := {*args.file} - {*known}:
                sys.exit(
                    f"--file: nothing can be mutated in {', '.join(sorted(wrong))}; one of {', '.join(known)} will do"
                )
            found = [one for one in found if one.file in args.file]
        with Bar(args.count or len(found)) as bar, ThreadPoolExecutor(args.jobs) as pool:
            list(pool.map(laboratory.explore, laboratory.devices))
            if args.op:  # only what these come through
                found = [one for one in found if one.statement and reaches(laboratory, one)]

            def work(one: Mutation) -> None:
                verdict = laboratory.judge(one, entries)
                with lock:
                    verdicts.append(verdict)
                    bar.step(f"{one.place}: {verdict.how}")
                    if args.verbose:
                        print(line(verdict), flush=True)

            list(pool.map(work, drawn(found, args.count or len(found), random.Random(args.seed))))
    finally:
        laboratory.close()
    return sorted(verdicts), old


def unreached(args: argparse.Namespace) -> list[str]:
    """Returns the statements that no operator of any device comes through, a mutation of which cannot be noticed."""
    laboratory = Laboratory(args.package, args.seed, args.op or None, quick=True, trust=True)
    try:
        with Bar(0), ThreadPoolExecutor(args.jobs) as pool:
            list(pool.map(laboratory.explore, laboratory.devices))
        found = {(one.file, one.statement, one.function): one for one in sites(laboratory.source, laboratory.pattern)}
        reached = set().union(*(places for device in laboratory.reached.values() for places in device.values()))
        return [
            f"{file}:{statement} {function}"
            for file, statement, function in sorted(found)
            if statement and f"{file}:{statement}" not in reached
        ]
    finally:
        laboratory.close()


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
    begin = f"{verdict.how:10} {one.place} {one.function}: {flat(one.before)} → {flat(one.after)}"
    return f"{begin} [{verdict.device} {flat(verdict.killed, 90)}]" if verdict.killed else begin


def flat(text: str, width: int = 100) -> str:
    text = " ".join(text.split())
    return text if len(text) <= width else text[: width - 1] + "…"


def report(verdicts: list[Verdict], seconds: float) -> dict[str, Any]:
    """Returns the counts and the verdicts as plain values."""
    killed = sum(bool(one.killed) for one in verdicts)
    same, cost = (sum(one.how == how for one in verdicts) for how in (EQUIVALENT, COST))
    counted = len(verdicts) - same - cost
    return {
        "mutations": len(verdicts), "killed": killed, "equivalent": same, "cost_only": cost,
        "survived": counted - killed, "ratio": round(killed / counted, 4) if counted else 1.0,
        "seconds": round(seconds, 1), "verdicts": [one.as_dict() for one in verdicts],
    }  # fmt: skip


def show(found: dict[str, Any], verdicts: Iterable[Verdict], old: list[Identity], seed: int) -> None:
    for one in verdicts:
        if not one.killed:
            print(line(one))
            print(f"           {one.mutation.kind}" + (f"; {one.reason}" if one.reason else ""))
    for entry in old:
        print(f"expired: {entry.file} {entry.function}: {flat(entry.before)} → {flat(entry.after)}; judge it again")
    killed, total, same = found["killed"], found["mutations"], found["equivalent"] + found["cost_only"]
    print(
        f"{killed} of {total} mutations killed, {found['survived']} survived, {found['equivalent']} are equivalent, "
        f"{found['cost_only']} change the cost only: {killed} of {total - same} is {100 * found['ratio']:.1f} % "
        f"(in {found['seconds']:.0f} s, --seed {seed})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100, help="how many mutations (100), or 0 for every one")
    parser.add_argument("--seed", type=int, help="which mutations, and the seed of the suite")
    parser.add_argument("--package", choices=PACKAGES, default="arrays", help="what is mutated (arrays)")
    parser.add_argument("--op", action="append", metavar="OP", help="only what this operator reaches; several times")
    parser.add_argument("--file", action="append", help="only this file, as in arrays/view.py; several times")
    parser.add_argument("--quick", action="store_true", help="do not try the whole suite on survivors of --quick")
    parser.add_argument("--trust", action="store_true", help="do not run what was judged equivalent or cost only")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many at once")
    parser.add_argument("--least", type=float, default=0.95, help="the ratio below which the exit code is 1 (0.95)")
    parser.add_argument("--entries", action="store_true", help="print survivors that nobody has judged as entries")
    parser.add_argument("--unreached", action="store_true", help="only print the statements that nobody reaches")
    parser.add_argument("--json", action="store_true", help="print plain values")
    parser.add_argument("--verbose", action="store_true", help="print each mutation, also those that are killed")
    args = parser.parse_args()
    args.seed = secrets.randbits(16) if args.seed is None else args.seed
    if args.unreached:
        print("\n".join(unreached(args)))
        return
    begin = time.perf_counter()
    verdicts, old = experiment(args)
    found = report(verdicts, time.perf_counter() - begin)
    if args.entries:
        print("".join(entry_text(one.mutation) for one in verdicts if not one.killed and not one.reason), end="")
    elif args.json:
        print(json.dumps(found, indent=1))
    else:
        show(found, verdicts, old, args.seed)
    if found["ratio"] < args.least:
        sys.exit(1)


if __name__ == "__main__":
    main()
