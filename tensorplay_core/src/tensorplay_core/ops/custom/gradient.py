"""Gradients that programs register for an operator: ``setup_context`` keeps what ``backward`` needs.

A call becomes one node, as the calls of built-in operators do, so a pass treats both alike. What a context keeps is
kept as nodes keep it: tensors as arrays with their version cell, so that a write in between is noticed, nothing is a
cycle, and a pass that frees the node frees all of it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, ClassVar

from tensorplay_core.autograd.kept import freed
from tensorplay_core.autograd.modes import no_grad
from tensorplay_core.autograd.node import MULTIPLE, SAVING, Gradients, Node, record
from tensorplay_core.dispatch.key_set import KeySet
from tensorplay_core.dispatch.operator import location
from tensorplay_core.errors import AutogradError, RegistrationError, fix
from tensorplay_core.ops.arguments import tensors_in
from tensorplay_core.ops.autograd_kernels import distinct, records
from tensorplay_core.ops.call import below_autograd, redispatch
from tensorplay_core.ops.custom.context import Context, State
from tensorplay_core.ops.custom.kernels import Layout
from tensorplay_core.tensor.tensor import Tensor, TensorBase, wrap
from tensorplay_core.tensor.version import version_of


class Formula:
    """A registered gradient: the two functions, checked, and the layout of their operator.

    Raises:
        RegistrationError: the operator writes to an argument, or the functions do not take what they are called with.
    """

    def __init__(self, layout: Layout, backward: Callable[..., Any], setup_context: Callable[..., Any] | None) -> None:
        """See the class."""
        op, self.layout, self.backward, self.setup = layout.op, layout, backward, setup_context
        self.where = location(backward)
        schema = op.schema
        if schema.mutates:
            raise RegistrationError(
                f"{op.display_name} writes to {', '.join(schema.mutates)}; a gradient is of values that stay: {schema}"
                + fix("define an operator that returns new tensors, and register the gradient for that one.")
            )
        if schema.is_view:
            raise RegistrationError(
                f"{op.display_name} returns a view of an argument, for which no gradient can be registered: {schema}"
                + fix("return a clone() of it, and leave the alias out of the schema.")
            )
        keyword_tensors = [a.name for a in schema.keyword_only if a.type.holds_tensors]
        if keyword_tensors:
            raise RegistrationError(
                f"{op.display_name}: gradients are of positional tensors, and {', '.join(keyword_tensors)} is "
                f"keyword-only: {schema}" + fix("move it before the '*' in the operator's signature.")
            )
        self.with_keywords = bool(schema.keyword_only)
        names = (
            ("ctx", "inputs", "keyword_only_inputs", "output") if self.with_keywords else ("ctx", "inputs", "output")
        )
        self._check(
            "backward", backward, (None,) * (1 + len(schema.returns)), {}, f"(ctx{_grads(len(schema.returns))})"
        )
        if setup_context is not None:
            self._check("setup_context", setup_context, (), dict.fromkeys(names), f"({', '.join(names)})")

    def _check(
        self, role: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], wanted: str
    ) -> None:
        import inspect  # here, because it costs a third of the import of the package

        op = self.layout.op
        if not callable(function):
            raise RegistrationError(f"{op.display_name}: {role} is a function, not {function!r}")
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError):
            return
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            raise RegistrationError(
                f"{op.display_name}: {role}{signature} ({location(function)}) cannot be called as "
                f"{role}{wanted}: {error}" + fix(f"define it as {role}{wanted}.")
            ) from None

    def set_up(self, context: Context, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """Calls the user's ``setup_context``, with every argument and lists as lists."""
        if self.setup is None:
            return
        extra = {"keyword_only_inputs": self.layout.keywords(kwargs)} if self.with_keywords else {}
        with no_grad():
            self.setup(ctx=context, inputs=self.layout.inputs(args), output=result, **extra)

    def error(self, what: str, remedy: str) -> AutogradError:
        """Returns an error about what ``backward`` returned."""
        return AutogradError(f"{self.layout.op.display_name}: its backward ({self.where}) {what}" + fix(remedy))

    def gradients(self, found: Any, node: CustomNode, needs: tuple[Any, ...]) -> Gradients:
        """Returns the gradients that ``backward`` gave, one per edge.

        Raises:
            AutogradError: their number, classes or shapes are not those of the inputs.
        """
        given = found if isinstance(found, tuple) else (found,)
        specs = self.layout.plan.positional
        if len(given) != len(specs):
            names = ", ".join(spec.name for spec in specs)
            raise self.error(
                f"returned {_count(given)}, and the operator has {len(specs)} inputs ({names})",
                "return a tuple with one for each, in their order, and None for what is no tensor or needs none.",
            )
        edges, flat = iter(node.edges), []
        for spec, grad, need in zip(specs, given, needs, strict=True):
            if spec.kind != "Tensor":
                if grad is not None:
                    raise self.error(f"returned a gradient for {spec.name}, which is no tensor", "return None there.")
            elif isinstance(need, list):
                flat += self._list(spec.name, grad, need, edges)
            else:
                flat.append(self._one(spec.name, grad, next(edges)))
        return tuple(flat)

    def _list(self, name: str, grads: Any, needs: list[bool], edges: Any) -> list[Any]:
        if grads is None:
            grads = [None] * len(needs)
        if isinstance(grads, TensorBase) or not isinstance(grads, (list, tuple)) or len(grads) != len(needs):
            raise self.error(
                f"returned {_class(grads)} for {name}, a list of {len(needs)} tensors",
                f"return a list of {len(needs)} there: a tensor or None for each.",
            )
        return [self._one(f"{name}[{i}]", grad, next(edges)) for i, grad in enumerate(grads)]

    def _one(self, name: str, grad: Any, edge: Node | None) -> Any:
        if grad is None:
            return None
        if not isinstance(grad, TensorBase):
            raise self.error(f"returned {_class(grad)} as the gradient of {name}", "return a tp.Tensor, or None.")
        if edge is None:
            return grad
        wanted = edge.shape
        extra = grad.ndim - len(wanted)
        if extra < 0 or any(n not in (1, m) for n, m in zip(wanted, grad.shape[extra:], strict=True)):
            raise self.error(
                f"returned a gradient of shape {grad.shape} for {name}, whose shape is {wanted}",
                "return one of the input's shape; sum it over the dims in which the input was broadcast, or leave that "
                "to autograd.",
            )
        device = edge.type.device
        if grad.ndim and grad.device != device:
            raise self.error(
                f"returned a gradient on {grad.device} for {name}, which is on {device}",
                f"make it there: device=grad.device, or .to({str(device)!r}).",
            )
        return grad


def _grads(count: int) -> str:
    return ", grad" if count == 1 else "".join(f", grad{i}" for i in range(count))


def _tupled(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _count(given: tuple[Any, ...]) -> str:
    if len(given) == 1 and isinstance(given[0], list):
        return f"a list of {len(given[0])}, which counts as one gradient"
    return f"{len(given)} gradient{'s' * (len(given) != 1)}"


def _class(value: Any) -> str:
    return f"a list of {len(value)}" if isinstance(value, (list, tuple)) else f"a {type(value).__name__}"


class CustomNode(Node):
    """The node of a call whose operator has a registered gradient; each registration has a class of its own."""

    __slots__ = ()
    takes_none = True
    formula: ClassVar[Formula]

    def backward(self, grad: Any, graph: bool) -> Gradients:
        """Calls the user's ``backward`` and checks what it returns."""
        if self.saved is None:
            raise freed(self)
        state: State = self.saved
        formula = self.formula
        with nullcontext() if graph else no_grad():
            grads = self._grads(grad, state)
            before = [(g, version_of(g)[0]) for g in tensors_in(tuple(map(_tupled, grads)), {})]
            found = formula.backward(Context._again(state, self, graph), *grads)
        if any(version_of(g)[0] != number for g, number in before):
            raise formula.error(
                "wrote to a gradient that it was given, which other nodes may be given too",
                "use the out-of-place operator: grad * 2 rather than grad.mul_(2).",
            )
        return formula.gradients(found, self, state.needs)

    def _grads(self, grad: Any, state: State) -> list[Any]:
        """Returns one gradient per result: a list of them for a list of tensors, None for what is no tensor."""
        if not self.several:
            return [grad]
        flat = iter([self._zeros(i) if g is None and state.materialize else g for i, g in enumerate(grad)])
        found: list[Any] = []
        for promised, size in zip(self.formula.layout.returns, state.sizes, strict=True):
            grads = [next(flat) for _ in range(size)]
            found.append(grads if promised.type.is_list else grads[0] if grads else None)
        return found

    def _zeros(self, index: int) -> Tensor:
        return Tensor.new_zeros(wrap(None, self.type[index]), self.shape[index])


def node_class(formula: Formula) -> type[CustomNode]:
    """Returns the class of an operator's nodes, called as the built-in ones are: ``MyOpBackward``."""
    op = formula.layout.op
    words = f"{op.name}_{op.overload}".split("_")
    name = "".join(word[:1].upper() + word[1:] for word in words) + "Backward"
    single = [str(r.type) for r in op.schema.returns] == ["Tensor"]
    inputs = ", ".join(a.name for a in op.schema.positional if a.type.holds_tensors)
    backward = getattr(formula.backward, "__qualname__", type(formula.backward).__qualname__).replace("<locals>.", "")
    doc = f"The gradient that was registered for {op.qualified_name}.\n\n{inputs}: {backward} ({formula.where})"
    return type(
        name,
        (CustomNode,),
        {
            "__slots__": (),
            "__doc__": doc,
            "__module__": __name__,
            "op": op,
            "kind": SAVING if single else MULTIPLE,
            "formula": formula,
        },
    )


def _needs(layout: Layout, args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(
        [bool(t is not None and t._node is not None) for t in value]
        if spec.kind == "Tensor" and spec.is_list and value is not None
        else isinstance(value, TensorBase) and value._node is not None
        for spec, value in zip(layout.plan.positional, args, strict=True)
    )


def _flat(layout: Layout, args: tuple[Any, ...]) -> list[tuple[str, Any]]:
    """Returns the tensor inputs in order, None included: one per edge of a node, each with its name."""
    found: list[tuple[str, Any]] = []
    for spec, value in zip(layout.plan.positional, args, strict=True):
        if spec.kind != "Tensor":
            continue
        if spec.is_list and value is not None:
            found += [(f"{spec.name}[{i}]", item) for i, item in enumerate(value)]
        else:
            found.append((spec.name, value))
    return found


def autograd_kernel(formula: Formula) -> Callable[..., Any]:
    """Returns the kernel at Autograd that records calls with a registered gradient."""
    op, layout, node = formula.layout.op, formula.layout, node_class(formula)

    def autograd(keys: KeySet, *args: Any, **kwargs: Any) -> Any:
        result = redispatch(op, below_autograd(keys), args, kwargs)
        if records(args, {}):
            result = distinct(op, result, args, kwargs)
            _record(node(), formula, layout, result, args, kwargs)
        return result

    autograd.__qualname__ = node.__name__
    autograd.node = node  # type: ignore[attr-defined]  # what `ops show` and `explain` read
    return autograd


def _record(
    node: CustomNode, formula: Formula, layout: Layout, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    values = result if len(layout.returns) > 1 else (result,)
    parts = [list(v) if isinstance(v, (list, tuple)) else [v] if isinstance(v, TensorBase) else [] for v in values]
    outputs = [tensor for part in parts for tensor in part]
    context = Context(_needs(layout, args))
    formula.set_up(context, args, kwargs, result)
    constant = {id(tensor) for tensor in context._not_differentiable}
    differentiable = tuple(id(tensor) not in constant for tensor in outputs)
    if not any(differentiable):
        return
    inputs = _flat(layout, args)
    node.saved = context._packed({id(t): name for name, t in inputs if t is not None}, parts)
    record(node, tuple(t for _, t in inputs), result if node.kind == SAVING else tuple(outputs), differentiable)
