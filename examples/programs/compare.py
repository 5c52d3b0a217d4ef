"""The runner's other half: programs in processes of their own, and what is told of their values, times and memory.

A child prints its report as JSON; what goes wrong in it becomes part of the report, so that one program never stops the
next.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

LIBRARIES = ("torch", "tensorplay")
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
SLOWER = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
"""Settings of some machines that slow NumPy's matrix products; a measurement goes without them."""
RUN = str(Path(__file__).with_name("run.py"))


def one_thread() -> bool:
    """Whether this process was started to use one thread."""
    return os.environ.get("OMP_NUM_THREADS") == "1"


def process(command: list[str]) -> dict[str, Any]:
    """Runs a command that prints JSON, with one thread; where it fails, the report is the error that it ended with."""
    environment = {name: value for name, value in os.environ.items() if name not in SLOWER}
    # A terminal is handed on, for the child's progress bar; what it says of an error is seen there too.
    said = None if sys.stderr.isatty() else subprocess.PIPE
    done = subprocess.run(
        [sys.executable, *command],
        env=environment | dict.fromkeys(THREADS, "1"),
        text=True,
        stdout=subprocess.PIPE,
        stderr=said,
    )
    if done.returncode == 0:
        report: dict[str, Any] = json.loads(done.stdout)
        return report
    return {"error": last_words(done.stderr or "") or f"exit code {done.returncode}"}


def last_words(text: str) -> str:
    """The message of an error, without the traceback that leads to it."""
    lines = text.strip().split("\n")
    places = [n for n, line in enumerate(lines) if line.startswith("  ")]
    return "\n".join(lines[places[-1] + 1 :] if places else lines)


def start(name: str, library: str, options: argparse.Namespace, dtype: str, pictures: bool = True) -> dict[str, Any]:
    """The report of one program on one library, in a process of its own."""
    command = [RUN, name, "--lib", library, "--dtype", dtype, "--json", "--out", str(options.out / library)]
    command += ["--device", options.device] if library == "tensorplay" else []
    command += ["--quick"] if options.quick else []
    command += ["--no-pictures"] if options.no_pictures or not pictures else []
    return process(command)


def told(report: dict[str, Any]) -> str:
    """A report as text: what the program said, what it found, how long it took, and where its pictures are."""
    lines = [f"{text}\n" for text in report["said"]]
    width = max(map(len, report["values"]))
    lines += [f"{key:<{width}}  {value['value']:.10g}" for key, value in report["values"].items()]
    where = f"{report['library']}, {report['device']}, {report['dtype']}"
    return "\n".join([*lines, f"{report['program']}: {report['seconds']:.1f} s on {where}", *report["pictures"]])


def each(options: argparse.Namespace) -> int:
    """Runs several programs on one library; one that fails does not stop the rest."""
    reports = []
    for name in options.names:
        report = {"program": name, **start(name, options.lib, options, options.dtype)}
        reports.append(report)
        if not options.json:
            print(f"{name}: {report['error']}\n" if "error" in report else f"{told(report)}\n", flush=True)
    failed = [report["program"] for report in reports if "error" in report]
    if options.json:
        print(json.dumps(reports, indent=1))
    elif failed:
        print(f"{len(failed)} of {len(reports)} failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def judged(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Both libraries' values and times for one program.

    Values are compared in float64, times in float32, which is what people compute in: two runs each, unless the run is
    a quick one, whose times say little anyway.
    """
    found = {library: start(name, library, options, options.dtype) for library in LIBRARIES}
    errors = {library: result["error"] for library, result in found.items() if "error" in result}
    report: dict[str, Any] = {"program": name, "values": [], "pictures": [], "errors": errors}
    if errors:
        return report
    ours, theirs = found["tensorplay"]["values"], found["torch"]["values"]
    for key in theirs:
        a, b, tolerance = theirs[key]["value"], ours[key]["value"], theirs[key]["tolerance"]
        ok = abs(a - b) <= tolerance
        report["values"].append({"name": key, "torch": a, "tensorplay": b, "tolerance": tolerance, "ok": ok})
    report["pictures"] = [path for result in found.values() for path in result["pictures"]]
    if options.dtype == "float64" and not options.quick:
        found = {library: start(name, library, options, "float32", pictures=False) for library in LIBRARIES}
    if all("seconds" in result for result in found.values()):
        report["seconds"] = {library: result["seconds"] for library, result in found.items()}
        report["ratio"] = report["seconds"]["tensorplay"] / report["seconds"]["torch"]
    return report


def agrees(report: dict[str, Any]) -> bool:
    """Whether both libraries ran a program and found the same."""
    return not report["errors"] and all(value["ok"] for value in report["values"])


def compare(options: argparse.Namespace) -> int:
    """Runs programs on both libraries and prints what they found; 1 where a value differs or a program fails."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    reports = []
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("comparing", total=len(options.names))
        for name in options.names:
            bar.update(task, description=name)
            reports.append(judged(name, options))
            bar.advance(task)
    if options.json:
        print(json.dumps(reports, indent=1))
    else:
        tell(reports)
    return 0 if all(map(agrees, reports)) else 1


def tell(reports: list[dict[str, Any]]) -> None:
    """Prints the comparison: a table of values, one of times, where the pictures are, and the errors."""
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else 132, highlight=False)
    if any(report["values"] for report in reports):
        console.print(table_of_values(reports))
    ratios = [report["ratio"] for report in reports if "ratio" in report]
    if ratios:
        console.print(table_of_times(reports))
        console.print(f"ratio of times: median {statistics.median(ratios):.2f}, largest {max(ratios):.2f}")
    folders = sorted({str(Path(path).parent) for report in reports for path in report["pictures"]})
    if folders:
        console.print(f"pictures: {', '.join(folders)}", soft_wrap=True)
    for report in reports:
        for library, error in report["errors"].items():
            console.print(f"{report['program']} on {library}: {error}", style="red", markup=False)
    bad = [report["program"] for report in reports if not agrees(report)]
    console.print(f"{len(reports) - len(bad)} of {len(reports)} agree" + (f"; not {', '.join(bad)}" if bad else ""))


def table_of_values(reports: list[dict[str, Any]]) -> Any:
    """What each program found on each library, how far that is apart, and how far it may be."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table("program", "value", box=SIMPLE_HEAD)
    for title in ("torch", "tensorplay", "difference", "tolerance", ""):
        table.add_column(title, justify="right")
    for report in reports:
        for n, value in enumerate(report["values"]):
            a, b = value["torch"], value["tensorplay"]
            mark = "ok" if value["ok"] else "[red]differs[/red]"
            numbers = (f"{a:.10g}", f"{b:.10g}", f"{abs(a - b):.1e}", f"{value['tolerance']:.1e}")
            table.add_row("" if n else report["program"], value["name"], *numbers, mark)
    return table


def table_of_times(reports: list[dict[str, Any]]) -> Any:
    """How long each library took for the loops that a program times, one thread each."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table("program", box=SIMPLE_HEAD)
    for title in ("torch, s", "tensorplay, s", "ratio"):
        table.add_column(title, justify="right")
    for report in reports:
        if "ratio" in report:
            seconds = (f"{report['seconds'][library]:.2f}" for library in LIBRARIES)
            table.add_row(report["program"], *seconds, f"{report['ratio']:.2f}")
    return table


PROBE = """
import json, re, sys
sys.path.insert(0, {folder!r})
import run, support
library = run.swap({library!r})
if hasattr(library, "set_num_threads"):
    library.set_num_threads(1)
import numpy, transformer
_, _, text, step = transformer.prepare(support.Settings(dtype="float32", device={device!r}))
starts = library.from_numpy(numpy.random.default_rng(1).integers(0, 100000, {rows})).to({device!r})
step(starts[:1], 1.0)  # makes whatever is made once
def kib(field):
    return int(re.search(field + r":\\s+(\\d+) kB", open("/proc/self/status").read())[1])
open("/proc/self/clear_refs", "w").write("5")  # the highest mark starts again from here
before = kib("VmRSS")
step(starts, 1.0)
print(json.dumps({{"mib": (kib("VmHWM") - before) / 1024}}))
"""
"""A fresh process that makes one step of training; Linux says how much of it was resident at most (proc(5))."""


def memory(options: argparse.Namespace) -> int:
    """Prints how much memory a step of the transformer's training takes beyond what is there before, by library."""
    if not Path("/proc/self/clear_refs").exists():
        print("error: the peak is read from /proc, which only Linux has", file=sys.stderr)
        return 1
    rows = 24 if options.quick else 96
    found = {}
    for library in LIBRARIES:
        device = options.device if library == "tensorplay" else "cpu"
        code = PROBE.format(folder=str(Path(RUN).parent), library=library, device=device, rows=rows)
        found[library] = process(["-c", code])
    if options.json:
        print(json.dumps(found))
    else:
        print(f"one step of training on {rows} windows of text, float32, beyond what was resident before:")
        for library, report in found.items():
            print(f"{library:<11}" + (f"{report['mib']:7.1f} MiB" if "mib" in report else report["error"]))
        if all("mib" in report for report in found.values()):
            print(f"ratio      {found['tensorplay']['mib'] / found['torch']['mib']:7.2f}")
    return 1 if any("error" in report for report in found.values()) else 0
