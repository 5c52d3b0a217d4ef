"""One family of exceptions; each is also the builtin that PyTorch raises in the same place."""

from __future__ import annotations

import inspect

import pytest

import tensorplay as tp
from tensorplay_core import errors

BUILTIN = {
    "ShapeError": RuntimeError,
    "DimError": IndexError,
    "DTypeError": RuntimeError,
    "ArgumentError": TypeError,
    "ValueRangeError": ValueError,
    "DeviceMismatch": RuntimeError,
    "DeviceUnavailable": RuntimeError,
    "BackendError": RuntimeError,
    "RegistrationError": RuntimeError,
    "BackendConflict": RuntimeError,
    "KernelMissing": NotImplementedError,
    "LinAlgError": RuntimeError,
    "NoDataError": NotImplementedError,
    "KernelError": RuntimeError,
    "OpCheckError": AssertionError,
    "AutocastError": RuntimeError,
    "AutogradError": RuntimeError,
    "ForwardMissing": NotImplementedError,
    "TransformError": RuntimeError,
    "SchemaError": ValueError,
    "ContractError": ValueError,
    "EnvironmentVariableError": ValueError,
}
CLASSES = {name: c for name, c in vars(errors).items() if inspect.isclass(c) and issubclass(c, Exception)}


def test_every_exception_is_listed_here():
    assert set(CLASSES) == {*BUILTIN, "TensorPlayError"}


@pytest.mark.parametrize("name", BUILTIN)
def test_it_is_ours_and_the_builtin_and_public(name):
    error = CLASSES[name]
    assert issubclass(error, errors.TensorPlayError) and issubclass(error, BUILTIN[name])
    assert getattr(tp, name) is error and error.__doc__


def test_a_conflict_is_a_registration_error():
    assert issubclass(errors.BackendConflict, errors.RegistrationError)


def test_near_names_are_offered():
    assert errors.did_you_mean("ad", ["add", "sub"]) == " Did you mean 'add'?"
    assert errors.did_you_mean("zzz", ["add"]) == ""
    assert errors.did_you_mean("sum", ["sum_", "sums", "sumx", "sumy"]).count("'") == 6
    assert errors.fix("do this.") == "\nfix: do this."


@pytest.mark.parametrize(
    ("call", "builtin"),
    [
        (lambda: tp.ones(2) + tp.ones(3), RuntimeError),
        (lambda: tp.ones(2).sum(5), IndexError),
        (lambda: tp.ones(2)[7], IndexError),
        (lambda: tp.ones(-1), RuntimeError),
        (lambda: tp.add(tp.ones(2), "x"), TypeError),
        (lambda: tp.ones(2, device="nowhere"), RuntimeError),
        (lambda: tp.ones(2, device="Bad Device"), ValueError),
        (lambda: tp.ones(2).item(), RuntimeError),
        (lambda: len(tp.tensor(1.0)), TypeError),
        (lambda: bool(tp.ones(2)), RuntimeError),
        (lambda: tp.ones((2, 3)) @ tp.ones((2, 3)), RuntimeError),
        (lambda: tp.ones(2).reshape(3), RuntimeError),
    ],
)
def test_what_users_catch(call, builtin):
    with pytest.raises(errors.TensorPlayError) as info:
        call()
    assert isinstance(info.value, builtin)
