"""``tp.library`` against ``torch.library``: the same programs, which name the framework ``fw``, do the same in both.

Skipped, visibly, where torch is not installed. What differs on purpose is in ``DIFFERENT`` with its reason.
"""

from __future__ import annotations

import itertools
import typing
from typing import Any

import pytest

import tensorplay as tp
from tensorplay_core.ops.custom.registration import DEFINITIONS

torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch, and these comparisons run")

pytestmark = pytest.mark.peers

DIFFERENT = {
    "typing.Union[int, float]": "a number of any kind, also where torch wants exactly int | float | bool",
    "tuple[int, ...]": "torch takes no tuples",
    "typing.Optional[list[fw.Tensor]]": "torch takes no optional list of tensors",
    "list[str]": "torch takes no list of strings",
    "list[fw.dtype]": "torch takes no list of dtypes",
    "complex": "the error is another",
}
HINTS = [
    *("fw.Tensor", "int", "float", "bool", "str", "fw.dtype", "fw.device", "typing.Union[int, float, bool]"),
    *("typing.Optional[fw.Tensor]", "typing.Optional[int]", "typing.Optional[str]", "fw.Tensor | None"),
    *("list[fw.Tensor]", "typing.List[int]", "typing.Sequence[float]", "list[bool]"),
    *("list[typing.Optional[fw.Tensor]]", "typing.Optional[list[int]]", "typing.Optional[typing.Sequence[float]]"),
    *DIFFERENT,
]
RESULTS = ["None", "fw.Tensor", "list[fw.Tensor]", "int", "float", "bool", "typing.Union[int, float, bool]"]
RESULTS += ["tuple[fw.Tensor, fw.Tensor]", "tuple[fw.Tensor, int]", "tuple[fw.Tensor, list[fw.Tensor]]", "str"]
DEFAULTS = ["n: int = 3", "f: float = 1e-05", "b: bool = True", "s: str = 'x'", "d: fw.dtype = fw.float32"]
DEFAULTS += ["p: fw.device = fw.device('cpu')", "o: typing.Optional[fw.Tensor] = None", "i: float = 2"]


def scope(framework: Any) -> dict[str, Any]:
    return {"fw": framework, "typing": typing, "__name__": f"peer_{framework.__name__}"}


def schema(framework: Any, parameters: str, result: str, mutates: Any) -> str:
    names = scope(framework)
    exec(compile(f"def f({parameters}) -> {result}: ...", "<peer>", "exec", dont_inherit=True), names)
    try:
        text: str = framework.library.infer_schema(names["f"], mutates_args=mutates, op_name="f")
    except (ValueError, RuntimeError):
        return "refused"
    return text.replace("SymInt", "int")


@pytest.mark.parametrize("hint", HINTS)
def test_hints_mean_the_same(hint):
    ours, theirs = (schema(fw, f"x: {hint}", "fw.Tensor", ()) for fw in (tp, torch))
    if hint in DIFFERENT:
        assert theirs == "refused" and (ours != "refused") == (hint != "complex"), DIFFERENT[hint]
    else:
        assert ours == theirs != "refused"


@pytest.mark.parametrize("result", RESULTS)
def test_results_mean_the_same(result):
    assert schema(tp, "x: fw.Tensor", result, ()) == schema(torch, "x: fw.Tensor", result, ())


def test_whole_signatures_mean_the_same():
    pairs = list(itertools.product(DEFAULTS, DEFAULTS))
    for (first, second), mutates in zip(pairs, itertools.cycle([(), {"x"}, {"x", "ys"}, "unknown"]), strict=False):
        if first[0] != second[0]:
            parameters = f"x: fw.Tensor, ys: list[fw.Tensor], {first}, *, {second}"
            ours, theirs = (schema(fw, parameters, "fw.Tensor", mutates) for fw in (tp, torch))
            assert ours == theirs != "refused"


PROGRAMS = {
    "one input": """
@fw.library.custom_op("peer::cube", mutates_args=())
def cube(x: fw.Tensor) -> fw.Tensor:
    return fw.from_numpy(x.numpy() ** 3)
def setup(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])
cube.register_autograd(lambda ctx, g: 3 * ctx.saved_tensors[0] ** 2 * g, setup_context=setup)
x = fw.tensor([1.0, -2.0], dtype=fw.float64, requires_grad=True)
y = cube(x)
(g,) = fw.autograd.grad(y.sum(), x, create_graph=True)
(h,) = fw.autograd.grad(g.sum(), x)
found = [y.tolist(), g.tolist(), h.tolist(), y.requires_grad]
""",
    "lists, several results, needs_input_grad": """
@fw.library.custom_op("peer::parts", mutates_args=())
def parts(
    xs: typing.List[fw.Tensor], k: float, w: typing.Optional[fw.Tensor]
) -> typing.Tuple[fw.Tensor, fw.Tensor]:
    return xs[0] * k, xs[1] * 2.0
seen = []
def setup(ctx, inputs, output):
    xs, ctx.k, w = inputs
    seen.append([len(xs), w is None])
def backward(ctx, a, b):
    seen.append([ctx.needs_input_grad, a.tolist(), b.tolist()])
    return [a * ctx.k, b * 2.0], None, None
parts.register_autograd(backward, setup_context=setup)
x, y = (fw.tensor([v], requires_grad=True) for v in (1.0, 2.0))
a, b = parts([x, y], 3.0, None)
b.sum().backward()
found = [x.grad.tolist(), y.grad.tolist(), seen]
""",
    "keyword-only inputs": """
@fw.library.custom_op("peer::scaled", mutates_args=())
def scaled(x: fw.Tensor, *, by: float = 2.0) -> fw.Tensor:
    return x * by
def setup(ctx, inputs, keyword_only_inputs, output):
    ctx.by = keyword_only_inputs["by"]
scaled.register_autograd(lambda ctx, g: g * ctx.by, setup_context=setup)
x = fw.tensor([1.0], requires_grad=True)
(scaled(x) + scaled(x, by=5.0)).sum().backward()
found = [x.grad.tolist()]
""",
    "None where no gradient came": """
@fw.library.custom_op("peer::two", mutates_args=())
def two(x: fw.Tensor) -> typing.Tuple[fw.Tensor, fw.Tensor]:
    return x * 1.0, x * 2.0
seen = []
def backward(ctx, a, b):
    seen.append([a is None, b is None])
    return b * 2.0
two.register_autograd(backward, setup_context=lambda ctx, inputs, output: ctx.set_materialize_grads(False))
x = fw.tensor([1.0], requires_grad=True)
two(x)[1].sum().backward()
found = [x.grad.tolist(), seen]
""",
    "a write is counted": """
@fw.library.custom_op("peer::inc", mutates_args={"x"})
def inc(x: fw.Tensor) -> None:
    a = x.numpy()
    a += 1
w = fw.tensor([1.0], requires_grad=True)
x = w * 1.0
y = x * x
with fw.no_grad():
    inc(x)
try:
    y.sum().backward()
    found = ["missed"]
except RuntimeError as error:
    found = ["modified" in str(error), x.tolist()]
""",
    "what opcheck says": """
@fw.library.custom_op("peer::mut", mutates_args=())
def mut(x: fw.Tensor) -> fw.Tensor:
    x.add_(1)
    return x.clone()
@fw.library.custom_op("peer::ident", mutates_args=())
def ident(x: fw.Tensor) -> fw.Tensor:
    return x
@fw.library.custom_op("peer::good", mutates_args=())
def good(x: fw.Tensor) -> fw.Tensor:
    return x + 1
found = []
for op in (mut, ident, good):
    x = fw.ones(2)
    result = fw.library.opcheck(op, (x,), test_utils="test_schema", raise_exception=False)
    found.append([result["test_schema"] == "SUCCESS", x.tolist()])
""",
    "names": """
@fw.library.custom_op("peer::named", mutates_args=())
def named(x: fw.Tensor) -> fw.Tensor:
    '''Documented.'''
    return x + 1
op = fw.ops.peer.named.default
found = [op.name(), op.namespace, op.__name__, op._overloadname]
found += [op is fw.ops.peer.named.default, op.overloadpacket is fw.ops.peer.named, named._opoverload is op]
""",
    "a kernel and a fake": """
@fw.library.custom_op("peer::double", mutates_args=())
def double(x: fw.Tensor) -> fw.Tensor:
    return fw.from_numpy(x.numpy() * 2)
@double.register_kernel("cpu")
def _(x):
    return x * 20
@double.register_fake
def _(x):
    return x.new_empty((1, *x.shape))
found = [double(fw.ones(1)).tolist(), tuple(double(fw.empty(2, device="meta")).shape)]
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_do_the_same(name):
    found = []
    for framework in (tp, torch):
        names = scope(framework)
        exec(compile(PROGRAMS[name], f"<{name}>", "exec", dont_inherit=True), names)
        found.append(names["found"])
    for defined in [n for n in DEFINITIONS if n.startswith("peer::")]:
        DEFINITIONS.pop(defined)._lib.close()
    assert found[0] == found[1]
