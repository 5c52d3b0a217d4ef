"""From steps to instructions, and from instructions to registers."""

from __future__ import annotations

import numpy as np
import pytest

from tensorplay_core.ops.program_types import typed
from tensorplay_core.types.dtype import bool_, by_name, float32
from tensorplay_core.types.program import Program
from tensorplay_cpu.kernels import cpu_kernels
from tensorplay_cpu.lowering import Instruction, Names, choose, lower, place, zero_elsewhere, zero_where

KERNELS = cpu_kernels()


def lowered(*steps, dtype="float32", blocks=True):
    program = typed(Program(("x",), (), (), (), steps, (steps[-1][0],)), by_name(dtype), {})
    names = Names(["x"], ["x"] if dtype == "float16" else [])
    return lower(program, KERNELS, names, blocks=blocks), names


def functions(instructions):
    return [getattr(ins.function, "__name__", None) for ins in instructions]


def test_a_chain_needs_no_register_beside_the_result():
    chain = [Instruction(f"t{i}", np.negative, (f"t{i - 1}" if i else "a0",), float32, True) for i in range(5)]
    lines, registers = place(chain, ["t4"], [float32])
    assert registers == [] and {line.target for line in lines} == {"o0"}


def test_a_register_is_taken_again_only_after_its_last_reader():
    chain = [
        Instruction("t0", np.negative, ("a0",), float32, True),
        Instruction("t1", np.exp, ("t0",), float32, True),
        Instruction("t2", np.add, ("t0", "t1"), float32, True),
        Instruction("t3", np.add, ("t2", "t1"), float32, True),
    ]
    lines, registers = place(chain, ["t3"], [float32])
    assert len(registers) == 1 and lines[0].target != lines[1].target
    assert lines[2].operands == (lines[0].target, lines[1].target)


def test_dtypes_do_not_share_registers():
    chain = [
        Instruction("t0", np.greater, ("a0", "c0"), bool_, True),
        Instruction("t1", np.negative, ("a0",), float32, True),
        Instruction("t2", choose, ("t0", "t1", "a0"), float32, True),
    ]
    lines, registers = place(chain, ["t2"], [float32])
    assert registers == [bool_] and [line.target for line in lines] == ["r0", "o0", "o0"]


def test_a_result_that_is_no_instruction_is_copied():
    lines, registers = place([], ["a0"], [float32])
    assert registers == [] and lines[0].function is None and lines[0].operands == ("a0",)


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (("t0", "add", "x", 1), ["add"]),
        (("t0", "relu", "x"), ["maximum"]),
        (("t0", "sgn", "x"), ["sign"]),
        (("t0", "pow", "x", 2), ["multiply"]),
        (("t0", "pow", "x", 3), ["power"]),
        (("t0", "where", True, 0, "x"), ["zero_where"]),
        (("t0", "where", True, "x", 0.0), ["zero_elsewhere"]),
        (("t0", "where", True, -0.0, "x"), ["choose"]),
        (("t0", "sigmoid", "x"), ["absolute", "negative", "exp", "greater_equal", "maximum", "add", "divide"]),
    ],
)
def test_steps_become_ufuncs_that_write(step, expected):
    instructions, _ = lowered(step)
    assert functions(instructions) == expected and all(ins.writes for ins in instructions)


@pytest.mark.parametrize("step", [("t0", "sgn", "x"), ("t0", "sigmoid", "x"), ("t0", "pow", "x", 2)])
def test_what_no_ufunc_does_is_left_to_the_kernel(step):
    instructions, _ = lowered(step, dtype="complex64")
    assert [ins.function for ins in instructions] == [KERNELS[step[1]]] and not instructions[0].writes


def test_small_arrays_get_one_call_a_step():
    instructions, _ = lowered(("t0", "sigmoid", "x"), ("t1", "mul", "x", "t0"), blocks=False)
    assert [ins.function for ins in instructions] == [KERNELS["sigmoid"], np.multiply]


def test_half_precisions_are_widened_first():
    instructions, _ = lowered(("t0", "exp", "x"), dtype="float16")
    assert instructions[0] == Instruction("w0", None, ("a0",), float32, True)
    assert instructions[1].operands == ("w0",) and instructions[1].dtype is float32


def test_bool_is_cast_where_numpy_would_compute_in_another_dtype():
    instructions, _ = lowered(
        ("t0", "gt", "x", 0), ("t1", "exp", "t0"), ("t2", "mul", "x", "t0"), ("t3", "add", "t1", "t2")
    )
    assert functions(instructions) == ["greater", None, "exp", "multiply", "add"]


def test_no_name_of_a_program_is_a_name_in_the_text():
    names = Names(["o0", "import"], [])
    assert [names["o0"], names["import"], names["r0"], names.part()] == ["a0", "a1", "t0", "t1"]


@pytest.mark.parametrize("dtype", ["bool", "int8", "float16", "float32", "int64", "float64", "complex64"])
def test_choose_is_where_with_every_bit(dtype):
    rng = np.random.default_rng(0)
    raw = rng.integers(0, 2 if dtype == "bool" else 256, (2, 8 * 40), "uint8")  # NaN with payloads, and all the rest
    a, b = raw.view(dtype)
    condition = rng.random(a.shape) < 0.5
    zero_dims = a[:1].reshape(()), b[:1].reshape(())
    for left, right in ((a, b), (zero_dims[0], b), (a, zero_dims[1]), zero_dims):
        out = np.empty(condition.shape, dtype)
        choose(condition, left, right, out)
        assert out.tobytes() == where_of_bytes(condition, left, right)
    nothing = np.zeros((), dtype)
    zero_where(condition, b, out)
    assert out.tobytes() == where_of_bytes(condition, nothing, b)
    zero_elsewhere(condition, a, out)
    assert out.tobytes() == where_of_bytes(condition, a, nothing)
    inplace = b.copy()
    choose(condition, a, inplace, inplace)
    assert inplace.tobytes() == where_of_bytes(condition, a, b)


def where_of_bytes(condition, a, b):
    void = f"V{a.itemsize}"
    return np.where(condition, a.view(void), b.view(void)).tobytes()
