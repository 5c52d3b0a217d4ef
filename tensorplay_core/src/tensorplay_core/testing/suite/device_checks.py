"""What is checked of a device apart from its operators: its plugin, transfers of every dtype, pickling and copies."""

from __future__ import annotations

import copy
import math
import pickle
import threading
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from types import FunctionType
from typing import Any

from tensorplay_core.errors import TensorPlayError
from tensorplay_core.plugins import public as backends
from tensorplay_core.testing.references.rounding import UNSPECIFIED, format_of, round_to
from tensorplay_core.testing.suite.calls import LIMIT, REFUSALS, Skip, bits_of
from tensorplay_core.testing.suite.given import LAYOUTS, Given, literal
from tensorplay_core.testing.suite.outcome import FAILED, NOTHING, OK, Finding, Outcome
from tensorplay_core.testing.suite.program import shown
from tensorplay_core.testing.suite.subject import Subject, operators
from tensorplay_core.types import dtype as dt
from tensorplay_core.types.dtype import by_name

Check = Callable[[], None]
AREA = "device"
CPU = "cpu"


def of_device(subject: Subject, name: str, checks: list[Check]) -> Iterator[Outcome]:
    """Runs the checks of a device; yields its failures, or that all is well."""
    done = failures = 0
    for check in checks:
        try:
            check()
            done += 1
        except Skip:
            continue
        except Finding as finding:
            failures += 1
            yield Outcome(name, AREA, FAILED, "", done, finding.what, finding.program, finding.refused)
        except Exception as error:
            failures += 1
            refused = isinstance(error, REFUSALS)
            yield Outcome(name, AREA, FAILED, "", done, f"raised {type(error).__name__}: {error}", "", refused)
        if failures == LIMIT:
            return
    if not failures:
        yield Outcome(name, AREA, OK if done else NOTHING, "", done)


# ---------------------------------------------------------------------------------------------------------- the plugin


def plugin(subject: Subject) -> Iterator[Outcome]:
    """Its description, its probe, loading it twice, under warning filters, by two threads at once, and unloading it."""
    each = (_described, _kernels, _dtypes, _freezes, _unloads, _first_touch, _filters)
    yield from of_device(subject, "plugin", [partial(one, subject) for one in each])


def _program(subject: Subject, *lines: str) -> str:
    return "\n".join(
        ["import tensorplay as tp", "", *(line.replace("DEVICE", f'"{subject.device}"') for line in lines)]
    )


def _described(subject: Subject) -> None:
    name, api = subject.device, subject.api
    record = backends.load(name)
    info = record.info
    for what, right in (
        ("a summary", bool(info.summary)), ("a version", bool(info.version)), ("an api range", bool(info.api)),
        ("a device of its own name", record.owns_device and name in info.devices),
        ("a device that the probe counts", record.device_count >= 1),
        ("the state active", record.active),
        ("in its description what its device says of being mutable", info.mutable == api.mutable),
        ("in its description what its device says of views", info.views == api.views),
        ("a name of its device, for people", bool(api.device_name(0).strip())),
        ("the name of its array module in that of its device", _names_module(record.made, api.device_name(0))),
    ):  # fmt: skip
        if not right:
            raise Finding(
                f"the backend lacks {what}: {record!r}", f'import tensorplay as tp\n\nprint(tp.backends.info("{name}"))'
            )
    if backends.load(name) is not record:
        raise Finding("loading it a second time gives another record")


def _names_module(made: Any, name: str) -> bool:
    return made is None or getattr(made.xp, "__name__", "") in name


def _kernels(subject: Subject) -> None:
    """Whether ``explain`` can name the kernels: a function says what module it is of."""
    for name, op in operators().items():
        kernel = subject.kernel(op)
        function = kernel.function if kernel is not None else None
        if isinstance(function, FunctionType) and not function.__module__:
            raise Finding(f"the kernel of {name} has no __module__, by which explain says whose it is")


def _dtypes(subject: Subject) -> None:
    if unknown := subject.api.dtypes.keys() - {dtype.name for dtype in dt.ALL}:
        raise Finding(f"the device names dtypes that TensorPlay has not, which nobody can use: {sorted(unknown)}")
    for dtype in dt.ALL:
        if dtype.name in subject.dtypes:
            x = subject.tp.zeros(2, dtype=dtype, device=subject.device)
            found = subject.api.dtype_name(x._array)
            if found != dtype.name:
                raise Finding(f"zeros in {dtype.name} are {found} on the device")
        else:
            try:
                subject.tp.zeros(2, dtype=dtype, device=subject.device)
            except TensorPlayError:
                continue
            raise Finding(
                f"the device says that it has no {dtype.name}, and zeros makes it",
                _program(subject, f"print(tp.zeros(2, dtype=tp.{dtype.name}, device=DEVICE))"),
            )


def _freezes(subject: Subject) -> None:
    """Freezes an array as core does the numbers that it keeps for all calls; a library with flags can refuse writes."""
    array = subject.tp.ones(2, device=subject.device)._array
    if not hasattr(getattr(array, "flags", None), "writeable"):
        raise Skip
    subject.api.freeze(array)
    if array.flags.writeable:
        raise Finding("freeze leaves an array writable: a kernel that writes to a number would change it for all calls")


def _unloads(subject: Subject) -> None:
    tp, name = subject.tp, subject.device
    old = tp.zeros(3, device=name)
    lines = ["x = tp.zeros(3, device=DEVICE)", "tp.backends.unload(DEVICE)"]
    backends.unload(name)
    try:
        uses: dict[str, Check] = {
            "makes a tensor": partial(tp.zeros, 2, device=name),
            "computes": partial(tp.add, old, 1),
        }
        for what, use in uses.items():
            try:
                use()
            except TensorPlayError:
                continue
            raise Finding(f"after unload the device still {what}", _program(subject, *lines, "print(x + 1)"))
    finally:
        backends.load(name)
    if (old + 1).tolist() != [1.0] * 3 or (tp.zeros(2, device=name) + 2).tolist() != [2.0, 2.0]:
        program = _program(subject, *lines, "tp.backends.load(DEVICE)", "print(x + 1)")
        raise Finding("after unload and load, tensors from before or new ones do not compute", program)


def _first_touch(subject: Subject) -> None:
    gate, seen = threading.Barrier(2), []  # type: tuple[threading.Barrier, list[Any]]

    def touch() -> None:
        try:
            gate.wait(30)
            backends.load(subject.device)
            seen.append((subject.tp.zeros(2, device=subject.device) + 1).tolist())
        except Exception as error:
            seen.append(error)

    backends.unload(subject.device)
    workers = [threading.Thread(target=touch, daemon=True) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    backends.load(subject.device)
    wrong = [one for one in seen if one != [1.0, 1.0]]
    if wrong:
        raise Finding(f"two threads that use the device first do not both get to use it: {wrong[0]!r}")


def _filters(subject: Subject) -> None:
    """Loads the device while warnings are errors or ignored; either way it must be as quiet as ever afterwards."""
    name = subject.device
    made = backends.info(name).made
    for action in ("error", "ignore"):
        backends.unload(name)
        lines = ["tp.backends.unload(DEVICE)", f'warnings.simplefilter("{action}")', "print(tp.backends.load(DEVICE))"]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter(action)
                backends.load(name)
                subject.tp.zeros(2, device=name).log()
        except Exception as error:
            backends.refresh()
            if made is not None:  # of an array module; what has failed is forgotten
                backends.from_namespace(made.xp, name, **made.options)
            program = _program(subject, *lines).replace("import ", "import warnings\n\nimport ", 1)
            raise Finding(f"where warnings are errors: {type(error).__name__}: {error}", program) from None
        subject.tp.zeros(2, device=name).log()  # a warning of it is caught with those of all checks


# ------------------------------------------------------------------------------------------------------------ transfers


def transfers(subject: Subject) -> Iterator[Outcome]:
    """To the device and back, bit for bit, in every dtype and layout; from one dtype to every other."""
    checks: list[Check] = []
    for dtype in subject.dtypes:
        checks += [partial(_there_and_back, subject, dtype, layout) for layout in LAYOUTS]
        checks += [partial(one, subject, dtype) for one in (_own_memory, _odd_shapes, _buffers, _unfit, _too_large)]
        checks += [partial(_casts, subject, dtype, other) for other in subject.dtypes]
    yield from of_device(subject, "transfers", checks)


def numbers(subject: Subject, dtype: str) -> list[Any]:
    """Returns 24 numbers of a dtype: its largest and smallest, special ones, and random ones."""
    type, form, rng = by_name(dtype), format_of(dtype), subject.rng("transfers", dtype)
    if type.is_bool:
        return [rng.random() < 0.5 for _ in range(24)]
    if form is None:
        bits = 8 * type.itemsize
        edges = [0, 1, -1, 1 << (bits - 1), (1 << (bits - 1)) - 1, (1 << bits) - 1]
        return round_to([*edges, *(rng.getrandbits(bits) for _ in range(18))], dtype)
    edge = [0.0, -0.0, math.inf, -math.inf, math.nan, form.largest, -form.largest, form.tiny, -form.tiny]
    special = [*edge, form.tiny * form.eps, 1 + form.eps]
    real = round_to([*special, *(rng.gauss(0, 1) * 2.0 ** rng.randrange(-9, 9) for _ in range(13))], _part(dtype))
    return [complex(x, y) for x, y in zip(real, real[::-1], strict=True)] if type.is_complex else real


def _part(dtype: str) -> str:
    return {"complex64": "float32", "complex128": "float64"}.get(dtype, dtype)


def _there_and_back(subject: Subject, dtype: str, layout: str) -> None:
    tp = subject.tp
    given = Given((4, 6), numbers(subject, dtype), dtype, layout)
    host = given.build(tp, CPU)[0]
    there = host.to(subject.device)
    made = given.build(tp, subject.device)[0]
    text = given.text(CPU)
    program = _program(subject, f"x = {text}", "y = x.to(DEVICE)", "print(x, y)", "print(y.cpu())")
    if "inf" in text or "nan" in text:
        program = "from math import inf, nan\n" + program
    for what, found in (
        ("to the device and back", there.to(CPU)), ("on the device, brought to the cpu", made.to(CPU)),
    ):  # fmt: skip
        if found.dtype.name != dtype or bits_of(found) != bits_of(host.contiguous()):
            raise Finding(f"{dtype} numbers ({layout}) are not the same {what}: {shown(_flat(found))}", program)
    if str(there.device) != subject.place or there.dtype.name != dtype or tuple(there.shape) != (4, 6):
        raise Finding(f"{dtype} tensors change when they are brought to the device", program)
    for one in (there, made):
        if one.is_contiguous() != (one.stride() == (6, 1)):
            what = f"of strides {one.stride()} {'is' if one.is_contiguous() else 'is not'} contiguous"
            raise Finding(f"a {dtype} tensor of shape (4, 6) {what}, as the device tells it", program)
    if repr(there.tolist()) != repr(host.tolist()):
        raise Finding(f"tolist() of {dtype} numbers ({layout}) on the device is not that of the cpu", program)


def _flat(x: Any) -> list[Any]:
    return [value for row in x.tolist() for value in row]


def _own_memory(subject: Subject, dtype: str) -> None:
    if subject.device == CPU:
        raise Skip
    host = Given((3,), round_to([1, 0, 1], dtype), dtype).build(subject.tp, CPU)[0]
    there = host.to(subject.device)
    before = bits_of(there)
    host.zero_()
    if bits_of(there) != before:
        program = _program(subject, "x = tp.ones(3)", "y = x.to(DEVICE)", "x.zero_()", "print(y)")
        raise Finding(f"a {dtype} tensor that was brought to the device shares memory with the cpu's", program)


def _odd_shapes(subject: Subject, dtype: str) -> None:
    for shape in ((), (0,), (2, 0, 3), (1, 1)):
        count = math.prod(shape)
        given = Given(shape, round_to([1] * count, dtype), dtype)
        there = given.build(subject.tp, CPU)[0].to(subject.device)
        if tuple(there.shape) != shape or tuple(there.cpu().shape) != shape:
            program = _program(subject, f"x = tp.ones({shape}, dtype=tp.{dtype})", "print(x.to(DEVICE).cpu().shape)")
            raise Finding(f"a {dtype} tensor of shape {shape} changes its shape on the way", program)


def _buffers(subject: Subject, dtype: str) -> None:
    """An array over somebody's bytes has the numbers that they spell; an optional method of the device."""
    api = subject.api
    if not api._implements("from_buffer"):
        raise Skip
    spelt = bits_of(Given((4, 6), numbers(subject, dtype), dtype).build(subject.tp, CPU)[0])
    made = api.from_buffer(bytearray(spelt), api.dtypes[dtype], (4, 6))
    found = api.to_host(made)
    if api.dtype_name(made) != dtype or found.shape != (4, 6) or found.tobytes() != spelt:
        what = f"from_buffer of the bytes of {dtype} numbers gives {api.dtype_name(made)} of shape {found.shape}"
        raise Finding(f"{what}, or other numbers: {shown([*found.ravel().tolist()])}")


def _unfit(subject: Subject, dtype: str) -> None:
    """Numbers that a dtype has not, and lists that are no tensor, must raise."""
    type = by_name(dtype)
    bad: list[Any] = [[[1, 2], [3]], [1, [2]], ["1"], [None]]
    if type.is_integral:
        bits = 8 * type.itemsize - type.is_signed
        bad += [[math.nan], [math.inf], [1, -math.inf], [2**bits], [0, -(2**bits) - 1], [1j]]
    for data in bad:
        try:
            made = subject.tp.tensor(data, dtype=getattr(subject.tp, dtype), device=subject.device)
        except TensorPlayError:
            continue
        program = _program(subject, f"print(tp.tensor({literal(data)}, dtype=tp.{dtype}, device=DEVICE))")
        program = f"from math import inf, nan\n\n{program}"
        raise Finding(f"{literal(data)} must raise, and becomes the {dtype} tensor {made._array!r}", program)


def _too_large(subject: Subject, dtype: str) -> None:
    """A number that a floating dtype has not becomes an infinity, and nobody is warned."""
    form = format_of(dtype)
    if form is None or by_name(dtype).is_complex or form.largest > 1e300:
        raise Skip
    value = 4 * form.largest
    line = f"x = tp.tensor([{value!r}, 1.0], dtype=tp.{dtype}, device=DEVICE)"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = subject.tp.tensor([value, 1.0], dtype=getattr(subject.tp, dtype), device=subject.device)
    if made.tolist() != [math.inf, 1.0]:
        raise Finding(f"{value!r} becomes {made.tolist()[0]!r} in {dtype}", _program(subject, line, "print(x)"))


def _casts(subject: Subject, dtype: str, other: str) -> None:
    values = numbers(subject, dtype)
    made = Given((24,), values, dtype).build(subject.tp, subject.device)[0]
    try:
        cast = made.to(getattr(subject.tp, other))
    except Exception as error:
        line = f"print(tp.ones(3, dtype=tp.{dtype}, device=DEVICE).to(tp.{other}))"
        what = f"{dtype} to {other} raised {type(error).__name__}: {error}"
        raise Finding(what, _program(subject, line), refused=isinstance(error, REFUSALS)) from error
    expected = round_to(values, other)
    found = cast.tolist()
    zero = round_to([0], other)[0] if subject.profile.flushes else UNSPECIFIED
    for value, a, e in zip(values, found, expected, strict=True):
        if repr(a) == repr(zero) and 0 < abs(value) < getattr(format_of(dtype), "tiny", 0):
            continue
        if e is not UNSPECIFIED and repr(a) != repr(e) and not (a != a and e != e):
            if isinstance(a, complex) and repr(a.real) == repr(e.real) and repr(a.imag) == repr(e.imag):
                continue
            program = _program(
                subject, f"x = tp.tensor([{value!r}], dtype=tp.{dtype}, device=DEVICE)", f"print(x.to(tp.{other}))"
            )
            raise Finding(f"{dtype} {value!r} becomes {a!r} in {other}, and {e!r} is right", program)


# ------------------------------------------------------------------------------------------------------------- pickling


def pickling(subject: Subject) -> Iterator[Outcome]:
    """pickle, copy and deepcopy of every dtype: the same numbers, device, dtype and ``requires_grad``."""
    yield from of_device(subject, "pickle", [partial(_pickles, subject, dtype) for dtype in subject.dtypes])


def _pickles(subject: Subject, dtype: str) -> None:
    for layout in ("c", "strided", "transposed"):
        x = Given((4, 6), numbers(subject, dtype), dtype, layout).build(subject.tp, subject.device)[0]
        x = x.detach()
        if x.dtype.is_inexact:
            x.requires_grad_()
        rebuild, (host, *rest) = x.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
        other = host.astype(host.dtype.newbyteorder())
        for how, made in (
            ("pickle", pickle.loads(pickle.dumps(x))), ("copy.copy", copy.copy(x)), ("copy.deepcopy", copy.deepcopy(x)),
            ("a pickle of a machine of the other byte order", rebuild(other, *rest)),
        ):  # fmt: skip
            same = (made.shape, made.dtype, made.device, made.requires_grad)
            if same != (x.shape, x.dtype, x.device, x.requires_grad) or repr(made.tolist()) != repr(x.tolist()):
                line = f"x = tp.ones((4, 6), dtype=tp.{dtype}, device=DEVICE)"
                raise Finding(
                    f"{how} of a {dtype} tensor ({layout}) gives another one",
                    _program(subject, "import copy, pickle", line, "print(pickle.loads(pickle.dumps(x)))"),
                )
            if how == "copy.deepcopy" and subject.mutable:
                before = bits_of(x)
                made.detach().fill_(1)
                if bits_of(x) != before:
                    raise Finding(f"deepcopy of a {dtype} tensor shares its memory")
