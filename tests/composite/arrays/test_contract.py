"""The contract and the kernels name the same operators, in the same argument order."""

from __future__ import annotations

import inspect
from importlib.resources import files

import pytest
import yaml

from tensorplay_core.types.schema import parse_schema


def records():
    for file in sorted(files("tensorplay_core").joinpath("config").iterdir(), key=lambda f: f.name):
        if file.name.startswith("native_functions"):
            yield from yaml.safe_load(file.read_text(encoding="utf-8"))


PROMISED, OWN, FORMULAS = {}, set(), set()
for record in records():
    schema = parse_schema(record["func"])
    name = f"{schema.name}.{schema.overload}" if schema.overload else schema.name
    keys = {key.strip() for keys in record.get("dispatch", {}) for key in keys.split(",")}
    if "CPU" in keys:
        PROMISED[name] = (schema, record)
    if "Composite" in keys and "CUDA" not in keys:
        OWN.add(name)  # the CPU's alone: every other backend, CUDA too, gets the Composite kernel beside it
    if "math" in record:
        FORMULAS.add(name)
OWED = {"general": sorted({*PROMISED} - OWN), "cpu": sorted(PROMISED)}
each_kernel = pytest.mark.parametrize(
    ("k", "name"), [(which, name) for which, names in OWED.items() for name in names], indirect=["k"]
)


@pytest.mark.parametrize(("k", "which"), [(which, which) for which in OWED], indirect=["k"])
def test_every_promised_operator_has_a_kernel_and_no_other(k, which):
    more = {*k} - {*OWED[which]}
    assert sorted({*k} - more) == OWED[which]
    assert more <= (FORMULAS if which == "cpu" else set())  # a formula needs no kernel; the CPU writes some by hand


@each_kernel
def test_signature_binds_in_the_contracts_order(k, name):
    schema, record = PROMISED[name]
    kernel = k[name]
    positional = [argument.name for argument in schema.positional]
    if hasattr(kernel, "nin"):
        assert kernel.nin == len(positional)
        return
    try:
        signature = inspect.signature(kernel)
    except ValueError:  # a C function that says nothing about itself
        return
    demanded = {argument.name: None for argument in schema.keyword_only if argument.default is None}
    signature.bind(*positional, **demanded)
    named = list(signature.parameters)
    own = inspect.isfunction(kernel)
    if own:
        assert [one.removesuffix("_") for one in named[: len(positional)]] == [*positional]  # from_, a word of Python
    keywords = {argument.name for argument in schema.keyword_only}
    if not keywords <= set(named):
        assert record.get("composite", "none") != "none", f"{name} omits {keywords - set(named)} and has no Composite"


@each_kernel
def test_defaults_are_the_contracts(k, name):
    schema, _ = PROMISED[name]
    if not inspect.isfunction(k[name]):
        return
    parameters = inspect.signature(k[name]).parameters
    for argument in schema.positional:
        own = argument.name if argument.name in parameters else f"{argument.name}_"
        has = parameters[own].default is not inspect.Parameter.empty
        assert has == (argument.default is not None), argument.name
