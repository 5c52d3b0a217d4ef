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


PROMISED = {}
for record in records():
    schema = parse_schema(record["func"])
    if any("CPU" in [key.strip() for key in keys.split(",")] for keys in record.get("dispatch", {})):
        PROMISED[f"{schema.name}.{schema.overload}" if schema.overload else schema.name] = (schema, record)


def test_every_promised_operator_has_a_kernel_and_no_other(k):
    assert sorted(k) == sorted(PROMISED)


@pytest.mark.parametrize("name", sorted(PROMISED))
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
    signature.bind(*positional)
    named = list(signature.parameters)
    own = inspect.isfunction(kernel)
    if own:
        assert named[: len(positional)] == positional
    keywords = {argument.name for argument in schema.keyword_only}
    if not keywords <= set(named):
        assert record.get("composite", "none") != "none", f"{name} omits {keywords - set(named)} and has no Composite"


@pytest.mark.parametrize("name", sorted(PROMISED))
def test_defaults_are_the_contracts(k, name):
    schema, _ = PROMISED[name]
    if not inspect.isfunction(k[name]):
        return
    parameters = inspect.signature(k[name]).parameters
    for argument in schema.positional:
        has = parameters[argument.name].default is not inspect.Parameter.empty
        assert has == (argument.default is not None), argument.name
