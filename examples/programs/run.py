"""Runs the programs on torch or on TensorPlay by swapping what ``import torch`` means, and compares the two.

Each program is written for torch and runs alone with it: ``python transformer.py``. This runner puts TensorPlay's
modules in the place of torch's before a program is imported; nothing else changes. A comparison gives each library a
process of its own with one thread, because libraries that share a process share threads, memory and warmed caches.

    python run.py --list
    python run.py transformer --lib tensorplay
    python run.py --all --compare
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import compare  # noqa: E402
import support  # noqa: E402
from support import MissingPackage, Settings  # noqa: E402

PROGRAMS = (
    "digits_cnn",
    "transformer",
    "gru",
    "vae",
    "minilm",
    "gaussian_process",
    "logistic_lbfgs",
    "kmeans_pca",
    "springs",
    "style",
    "diffusion",
    "beam_search",
)
MODULES = ("nn", "nn.functional")
"""What programs import below ``torch``; the rest they reach as attributes."""


def swap(library: str) -> ModuleType:
    """Makes ``import torch`` mean the library, and ``safetensors.torch`` read files with it; returns the library."""
    if library == "torch":
        return support.package("torch")
    if "torch" in sys.modules:
        raise RuntimeError("torch is imported already\nfix: start a process for each library, as --compare does")
    import tensorplay

    sys.modules["torch"] = tensorplay
    for name in MODULES:
        sys.modules[f"torch.{name}"] = importlib.import_module(f"tensorplay.{name}")
    files = ModuleType("safetensors.torch")
    files.__getattr__ = lambda name: getattr(tensorplay, name)  # load_file, save_file
    sys.modules["safetensors.torch"] = files
    return tensorplay


def run(name: str, library: str, settings: Settings) -> dict[str, Any]:
    """Runs one program in this process; what it found is ready for JSON."""
    module = swap(library)
    if hasattr(module, "set_num_threads") and compare.one_thread():
        module.set_num_threads(1)
    values = importlib.import_module(name).main(settings)
    return {
        "program": name,
        "library": f"{library} {module.__version__}",
        "device": settings.device,
        "dtype": settings.dtype,
        "seconds": settings.seconds,
        "values": {key: {"value": v.value, "tolerance": v.tolerance} for key, v in values.items()},
        "said": settings.said,
        "pictures": [str(path) for path in settings.saved],
    }


def purpose(name: str) -> str:
    """The first sentence of a program's docstring, without importing it."""
    import ast

    text = ast.get_docstring(ast.parse((HERE / f"{name}.py").read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0]


def arguments(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="run.py", description="Twelve programs, on torch or on TensorPlay.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="programs to run; --list says which there are")
    parser.add_argument("--all", action="store_true", help="run all of them; one that fails does not stop the rest")
    parser.add_argument("--list", action="store_true", help="say what there is")
    parser.add_argument("--lib", choices=("torch", "tensorplay"), default="tensorplay", help="what runs (tensorplay)")
    parser.add_argument("--device", default="cpu", help="where it runs; with --compare, TensorPlay's side (cpu)")
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float64", help="of all tensors (float64)")
    parser.add_argument("--quick", action="store_true", help="small sizes: seconds, and less learned")
    parser.add_argument("--compare", action="store_true", help="run both, and compare values and time")
    parser.add_argument("--memory", action="store_true", help="measure a step of the transformer's training instead")
    parser.add_argument("--out", type=Path, default=support.PICTURES, metavar="FOLDER", help="where pictures go")
    parser.add_argument("--no-pictures", action="store_true", help="draw none (matplotlib is not needed then)")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    options = parser.parse_args(given)
    unknown = [name for name in options.names if name not in PROGRAMS]
    if unknown:
        parser.error(f"there is no program {unknown[0]!r}; there are {', '.join(PROGRAMS)}")
    if not (options.names or options.all or options.list or options.memory):
        parser.error("name a program, or say --all; --list says which there are")
    if len(options.names) > 1 or options.all:
        # Each in a process of its own: a program finds the library as it is when it starts.
        options.names = list(PROGRAMS) if options.all else options.names
    return options


def main(given: list[str] | None = None) -> int:
    options = arguments(given)
    if options.list:
        for name in PROGRAMS:
            print(f"{name:<17} {purpose(name)}")
        return 0
    if options.memory:
        return compare.memory(options)
    if options.compare:
        return compare.compare(options)
    if len(options.names) > 1:
        return compare.each(options)
    settings = Settings(
        dtype=options.dtype,
        device=options.device,
        quick=options.quick,
        pictures=None if options.no_pictures else options.out,
        bar=sys.stderr.isatty(),
    )
    try:
        report = run(options.names[0], options.lib, settings)
    except MissingPackage as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(json.dumps(report) if options.json else compare.told(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
