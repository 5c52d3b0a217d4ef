"""The functions of overloads, and the public one that chooses among them."""

from __future__ import annotations

from collections.abc import Callable

from tensorplay_core.codegen.context import CodegenContext
from tensorplay_core.codegen.generate import texts
from tensorplay_core.codegen.targets.choosing import choosing, set_name


def test_each_overload_has_a_function_with_its_own_signature(small: Callable[..., CodegenContext]) -> None:
    context = small(
        "- func: f(Tensor self) -> Tensor\n  promote: keep\n"
        "- func: f.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)\n"
    )
    text = texts(context)["_generated_functional_small.py"]
    assert 'def _f__default(input: Tensor) -> Tensor:\n    """``f``; see :func:`f`."""\n    try:\n' in text
    assert "def _f__dim(\n" in text or "def _f__dim(input: Tensor, dim: int, keepdim: bool = False" in text
    assert "y = t.k_f__dim(input._array, dim, keepdim)" in text, "several results come from the slot as tensors"
    assert text.index("_F_OVERLOADS = OverloadSet(") < text.index("\ndef f(*args: Any, **kwargs: Any) -> Any:")


def test_the_public_function_asks_for_the_classes() -> None:
    lookup, result = choosing("max")
    assert lookup == "known = _MAX_OVERLOADS.get((*map(type, args), *kwargs, *map(type, kwargs.values())))"
    assert result == "return known(*args, **kwargs) if known is not None else _MAX_OVERLOADS.call(args, kwargs)"
    assert set_name("div_") == "_DIV__OVERLOADS"
