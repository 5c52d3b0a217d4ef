"""Calls written as text, for ``tensorplay explain 'add(float32[2,3] cuda, float32[3] cuda grad)'``.

A tensor is written as its dtype and its sizes, then what else is to be known of it: a device, ``grad``, ``inference``.
Nothing is allocated, so a shape may be any size and a device need not be here: for one that is not, the keys, the
contract and the tables still tell what would run.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple, NoReturn

from tensorplay_core.autograd.node import AccumulateGrad
from tensorplay_core.dispatch import devices
from tensorplay_core.dispatch.device_api import DeviceAPI
from tensorplay_core.dispatch.key_set import KeySet
from tensorplay_core.dispatch.keys import OFFSETS, backend_key, key_name, pages
from tensorplay_core.dispatch.operator import Operator
from tensorplay_core.dispatch.tensor_type import TensorType, intern
from tensorplay_core.errors import ArgumentError, BackendError, DeviceUnavailable, TensorPlayError, did_you_mean
from tensorplay_core.ops import explain as whole
from tensorplay_core.ops import typing_rules
from tensorplay_core.ops.arguments import tensors_in
from tensorplay_core.ops.call import in_context
from tensorplay_core.ops.explain_call import Call, direct, find_call, target_of
from tensorplay_core.ops.explain_road import StandIn
from tensorplay_core.tensor.tensor import Tensor, wrap
from tensorplay_core.types import dtype as dt
from tensorplay_core.types.device import Device
from tensorplay_core.types.dtype import DType
from tensorplay_core.types.promotion import SCALARS, with_scalar

_DTYPES = {**{d.name: d for d in dt.ALL}, **dt.ALIASES}
_WORDS = {"True": True, "False": False, "None": None, "true": True, "false": False, "none": None}
_MARKS = ("grad", "requires_grad", "inference")
_HOME = ("cpu", "cuda", "vulkan", "meta")
_TOKEN = re.compile(
    r"\s*(?:(?P<number>[+-]?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+|inf|nan)(?![\w.]))"
    r"|(?P<name>[A-Za-z_][\w.]*(?:::?[\w.]+)*)|(?P<string>'[^']*'|\"[^\"]*\")|(?P<mark>[()\[\],=])|(?P<end>$))"
)


class CallTextError(ArgumentError):
    """A call that cannot be read; the message shows the text with a caret."""


class Token(NamedTuple):
    """A piece of the text, with the columns where it begins and ends."""

    kind: str
    text: str
    start: int
    end: int


class Written(NamedTuple):
    """A tensor as it is written."""

    dtype: DType
    shape: tuple[int, ...]
    device: Device | None
    grad: bool
    inference: bool
    start: int
    end: int


class Parsed(NamedTuple):
    """A call as it is written; the name comes with its columns."""

    name: Token
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def fail(text: str, start: int, end: int, message: str) -> NoReturn:
    """Raises the error with the text and a caret under the columns from ``start`` to ``end``."""
    caret = " " * start + "^" * max(end - start, 1)
    raise CallTextError(f"explain: {message}\n  {text}\n  {caret}")


class Parser:
    """Reads one call by recursive descent."""

    def __init__(self, text: str) -> None:
        self.text = text.strip()
        self.tokens = self._tokens()
        self.place = 0

    def _tokens(self) -> list[Token]:
        tokens: list[Token] = []
        place = 0
        while not tokens or tokens[-1].kind != "end":
            match = _TOKEN.match(self.text, place)
            if match is None:
                start = place + len(self.text[place:]) - len(self.text[place:].lstrip())
                fail(self.text, start, start + 1, f"cannot read {self.text[start]!r}")
            kind = str(match.lastgroup)
            tokens.append(Token(kind, match.group(kind), match.start(kind), match.end(kind)))
            place = match.end()
        return tokens

    @property
    def token(self) -> Token:
        """The next token."""
        return self.tokens[self.place]

    def take(self) -> Token:
        """Returns the next token and goes on."""
        token = self.token
        self.place = min(self.place + 1, len(self.tokens) - 1)
        return token

    def expect(self, mark: str, after: str) -> Token:
        """Takes a mark, or fails at the place where it should be."""
        if self.token.text != mark or self.token.kind != "mark":
            self.fail(self.token, f"expected {mark!r} after {after}, {self._found()}")
        return self.take()

    def _found(self) -> str:
        return f"found {self.token.text!r}" if self.token.text else "the text ends here"

    def fail(self, token: Token, message: str) -> NoReturn:
        """Fails at a token."""
        fail(self.text, token.start, token.end, message)

    def call(self) -> Parsed:
        """Reads the whole text."""
        name = self.take()
        if name.kind != "name":
            self.fail(name, "a call begins with an operator's name, such as add(float32[2,3], float32[3])")
        self.expect("(", f"{name.text!r}")
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        while self.token.text != ")" or self.token.kind != "mark":
            following = self.tokens[min(self.place + 1, len(self.tokens) - 1)]
            if self.token.kind == "name" and following.text == "=" and following.kind == "mark":
                keyword = self.take()
                self.take()
                kwargs[keyword.text] = self.value()
            elif kwargs:
                self.fail(self.token, "an argument without a name cannot follow one with a name")
            else:
                args.append(self.value())
            if self.token.text != ")":
                self.expect(",", "an argument")
        self.take()
        if self.token.kind != "end":
            self.fail(self.token, f"nothing follows a call, found {self.token.text!r}")
        return Parsed(name, tuple(args), kwargs)

    def value(self) -> Any:
        """Reads an argument: a tensor, a number, a word, a string, or a list of these."""
        token = self.take()
        if token.kind == "number":
            return _number(token.text)
        if token.kind == "string":
            return token.text[1:-1]
        if token.kind == "mark" and token.text in ("[", "("):
            return self.items("]" if token.text == "[" else ")")
        if token.kind != "name":
            self.place -= token.kind == "end" or token.text != ")"
            self.fail(token, "expected a tensor such as float32[2,3], a number or a list")
        if self.token.text == "[" and self.token.kind == "mark":
            return self.tensor(token)
        if token.text in _WORDS:
            return _WORDS[token.text]
        if token.text in _DTYPES:
            return _DTYPES[token.text]
        if token.text.partition(":")[0] in known_devices():
            return Device(token.text)
        names = [*_DTYPES, *_WORDS, *known_devices()]
        near = did_you_mean(token.text, names)
        self.fail(token, f"cannot read {token.text!r}: a tensor is written float32[2,3].{near}")

    def items(self, closing: str) -> list[Any]:
        """Reads the items of a list up to its end."""
        found = []
        while self.token.text != closing or self.token.kind != "mark":
            found.append(self.value())
            if self.token.text != closing:
                self.expect(",", "an item")
        self.take()
        return found

    def tensor(self, name: Token) -> Written:
        """Reads a tensor, whose dtype has been taken."""
        if name.text not in _DTYPES:
            self.fail(name, f"there is no dtype {name.text!r}.{did_you_mean(name.text, _DTYPES)}")
        self.take()
        shape = []
        while self.token.text != "]":
            size = self.take()
            if not size.text.isdigit():
                self.fail(size, "a size is an int from 0 on")
            shape.append(int(size.text))
            if self.token.text != "]":
                self.expect(",", "a size")
        end = self.take().end
        device, marks = None, set()
        while self.token.kind == "name":
            word = self.take()
            end = word.end
            if word.text in _MARKS:
                marks.add(word.text)
            elif word.text.partition(":")[0] in known_devices():
                device = self._device(word)
            else:
                near = did_you_mean(word.text, [*_MARKS, *known_devices()])
                devices_ = ", ".join(known_devices())
                self.fail(word, f"{word.text!r} is neither a device ({devices_}) nor grad or inference.{near}")
        dtype = _DTYPES[name.text]
        grad = bool(marks & {"grad", "requires_grad"})
        if grad and not dtype.is_inexact:
            fail(self.text, name.start, end, f"only floating and complex tensors can require grad, not {dtype.name}")
        return Written(dtype, tuple(shape), device, grad, "inference" in marks, name.start, end)

    def _device(self, word: Token) -> Device:
        try:
            return Device(word.text)
        except TensorPlayError as error:
            self.fail(word, str(error))


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def known_devices() -> tuple[str, ...]:
    """Returns the devices that have dispatch keys: the built-in ones, and those of installed backends."""
    from tensorplay_core.plugins.lifecycle import MANAGER

    MANAGER.records()  # gives installed backends their pages
    return (*_HOME, *(name for name in pages() if name not in _HOME))


# ---------------------------------------------------------------------------------------------------------- to a call


def explain_text(text: str) -> whole.Explanation:
    """Describes the road of a call that is written as text.

    Raises:
        CallTextError: the text cannot be read; a caret shows where.
        TensorPlayError: the call cannot be made.

    Example:
        >>> road = explain_text("matmul(float32[100000,3], float32[3,100000] grad)")
        >>> road.result.shapes, road.key_set
        (((100000, 100000),), KeySet(AutogradCPU, CPU))
    """
    parser = Parser(text)
    parsed = parser.call()
    try:
        target = target_of(parsed.name.text)
    except ArgumentError as error:
        fail(parser.text, parsed.name.start, parsed.name.end, str(error).removeprefix("explain: "))
    absent = _absent(parsed)
    if absent is None:
        args = tuple(_built(value, None) for value in parsed.args)
        kwargs = {name: _built(value, None) for name, value in parsed.kwargs.items()}
        return whole.explain_call(find_call(target, args, kwargs))
    device_type, why = absent
    entry = devices.DeviceEntry(device_type, _Nowhere(), 1, "")
    args = tuple(_built(value, entry) for value in parsed.args)
    kwargs = {name: _built(value, entry) for name, value in parsed.kwargs.items()}
    call = direct(target, args, kwargs)
    call = call._replace(args=_numbers(call.op, call.args, entry))
    absent_device = whole.Absent(entry.type, str(why), _promised(call, entry.type))
    return whole.explain_call(call, _keys(call, entry), absent_device)


class _Nowhere(DeviceAPI):
    """The API of a device that is not here: it has every dtype and makes no arrays."""

    array_class = StandIn
    dtypes = {d.name: d.name for d in dt.ALL}  # noqa: RUF012  a mapping that nobody changes


def _absent(parsed: Parsed) -> tuple[str, TensorPlayError] | None:
    """Returns the first device of a call that cannot be used here, with the error that says why."""
    values = [*parsed.args, *parsed.kwargs.values()]
    named = [v.device or devices.default_device() for v in _flat(values) if isinstance(v, Written)]
    named += [v for v in _flat(values) if isinstance(v, Device)]
    if isinstance(parsed.kwargs.get("device"), str):
        named.append(Device(parsed.kwargs["device"]))
    for device in named or [devices.default_device()]:
        try:
            devices.normalize(device)
        except (DeviceUnavailable, BackendError) as error:
            if device.type not in known_devices():
                raise
            return device.type, error
    return None


def _flat(values: list[Any]) -> list[Any]:
    return [v for value in values for v in (_flat(value) if isinstance(value, list) else [value])]


def _built(value: Any, absent: devices.DeviceEntry | None) -> Any:
    if isinstance(value, list):
        return [_built(item, absent) for item in value]
    if not isinstance(value, Written):
        return value
    place = value.device or devices.default_device()
    if absent is not None and place.type == absent.type:
        tensor = _stand_in(absent, value.dtype, value.shape, value.inference)
    else:
        tensor = wrap(StandIn(value.shape), intern(place, value.dtype, inference=value.inference))
    if value.grad and not value.inference:
        tensor._node = AccumulateGrad(tensor)
    return tensor


def _stand_in(entry: devices.DeviceEntry, dtype: DType, shape: tuple[int, ...], inference: bool = False) -> Tensor:
    device = Device(entry.type, 0 if entry.indexed else None)
    # Not interned: such types live for ever, and this one must not be found when the device comes.
    type = TensorType(entry, device, dtype, "strided", inference, None)
    type.plain = type.same_type = type
    return wrap(StandIn(shape), type)


def _numbers(op: Operator, args: tuple[Any, ...], entry: devices.DeviceEntry) -> tuple[Any, ...]:
    taking_part = typing_rules.promoted(op, args)
    dtype = typing_rules.tensor_dtype([value for _, value in taking_part])
    result = list(args)
    for i, value in taking_part:
        if value.__class__ in SCALARS and dtype is not None:
            dtype = with_scalar(dtype, value.__class__)
            result[i] = _stand_in(entry, typing_rules.compute_dtype(op, dtype), ())
    return tuple(result)


def _keys(call: Call, entry: devices.DeviceEntry) -> KeySet:
    bits = 0
    for tensor in tensors_in(call.args, call.kwargs):
        if tensor._type.page == entry.page and tensor._type.device.type == entry.type:
            bits |= tensor._type.key_bits
    bits = bits or 1 << entry.key | 1 << entry.key + OFFSETS["Autograd"]
    return in_context(bits, entry.page, entry.type)


def _promised(call: Call, device_type: str) -> str:
    """Returns the kernel that the contract promises for a device, or an empty string."""
    names = (device_type, key_name(backend_key(device_type)))
    return next((kernel for name in names for kernel in call.op.promises.get(name, ())), "")
