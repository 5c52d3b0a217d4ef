"""What a node saves: decided once from the analysis of the formulas, and read by whoever makes a node or fills one.

The nodes target emits the constructor and the backward of a node, the fast path fills one without calling either; both
take what is saved, in which order and under which condition, from the :class:`Plan` here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import attrs

from tensorplay_core.codegen.contract import Derivative
from tensorplay_core.codegen.formula.analysis import LENGTH, PRESENT
from tensorplay_core.codegen.formula.rewrite import saved_name
from tensorplay_core.codegen.targets.node_edges import kept_lengths
from tensorplay_core.types.schema import Argument, BaseType


@attrs.frozen
class Saved:
    """One entry of a node's ``saved``.

    Attributes:
        name: the local name in the backward, and the argument, result or metadata that is saved.
        kind: ``tensor``, ``tensors`` (a list), ``result`` or ``value``.
        text: the Python text that computes a value from the call's arguments.
        readers: the inputs whose formulas read it.
    """

    name: str
    kind: str
    text: str
    readers: tuple[str, ...]


@attrs.frozen
class Plan:
    """What is generated for one derivative record."""

    derivative: Derivative
    inputs: tuple[str, ...]
    lists: frozenset[str]
    saved: tuple[Saved, ...]
    given: Mapping[str, str] = attrs.field(factory=dict)
    """A name that a node cannot use to the one that the signature has; the record here has the first."""

    @property
    def kind(self) -> str | None:
        """The node's kind, where it is not the plain one: the engine frees a node that saved tensors."""
        saving = any(entry.kind != "value" for entry in self.saved)
        if len(self.derivative.schema.returns) > 1 or self.derivative.scope.listed:
            return "MULTIPLE" if saving else "PLAIN_MULTIPLE"
        return "SAVING" if saving else None

    @property
    def saves_input(self) -> tuple[str, ...]:
        """The inputs whose values are saved."""
        return tuple(self.given.get(e.name, e.name) for e in self.saved if e.kind in ("tensor", "tensors"))

    def result_index(self, entry: Saved) -> int | None:
        """Returns which of several results a saved one is; None of the only one."""
        return None if len(self.derivative.schema.returns) == 1 else self._output(entry.name)

    def saved_items(self, result: str, node: str, edges: dict[str, str]) -> list[str]:
        """Returns the items of ``saved`` as Python text, for ``record``.

        Args:
            result: the name of the result.
            node: the name of the node.
            edges: input to the name of its edge.
        """
        items = []
        for entry in self.saved:
            if entry.kind == "value":
                items.append(self.value_text(entry, {}, result))
            elif entry.kind == "result":
                what = result if len(self.derivative.schema.returns) == 1 else f"{result}[{self._output(entry.name)}]"
                items.append(f"save({what}, {node})")
            elif entry.kind == "tensors":
                items.append(f"tuple([save(x) for x in {entry.name}])")
            else:
                items.append(f"save({entry.name}){self.only_if_read(entry, edges)}")
        return items

    def fast_items(self, names: Mapping[str, str], edges: dict[str, str], types: dict[str, str]) -> list[str]:
        """Returns the same for the fast path, where ``save`` is inlined: there the types are known and none is special.

        Args:
            names: argument to the Python text that stands for it.
            edges: input to the name of its edge.
            types: tensor argument to the Python text of its type.
        """
        items = []
        for entry in self.saved:
            x, node = names.get(entry.name, ""), edges.get(entry.name, "None")
            if entry.kind == "value":
                items.append(self._owned(entry, self.value_text(entry, names, "y")))
            elif entry.kind == "result":
                items.append("(r, o, None, w, 0)")
            else:
                cell = f"v := {x}._version or version_of({x})"
                condition = self.only_if_read(entry, edges)
                argument = self.derivative.schema.argument(entry.name)
                if argument is not None and argument.type.is_optional:
                    present = f"{x} is not None"
                    condition = f"{condition[: -len(' else None')]} and {present}" if condition else f" if {present}"
                    condition += " else None"
                items.append(f"({x}._array, {types[entry.name]}, {node}, {cell}, v[0]){condition}")
        return items

    def _owned(self, entry: Saved, text: str) -> str:
        """Returns the text of a value that nobody can change later: a list of the caller's as a tuple."""
        argument = self.derivative.schema.argument(entry.name)
        return text if argument is None else owned(argument, text)

    @property
    def saves_result(self) -> bool:
        """Whether the result itself is saved."""
        return any(entry.kind == "result" for entry in self.saved)

    def only_if_read(self, entry: Saved, edges: dict[str, str]) -> str:
        """Returns the condition under which an input is saved: that a formula which reads it will run."""
        if len(self.inputs) < 2 or not entry.readers or set(entry.readers) == set(self.inputs) or not edges:
            return ""
        return f" if {' or '.join(f'{edges[r]} is not None' for r in entry.readers)} else None"

    def value_text(self, entry: Saved, names: Mapping[str, str], result: str) -> str:
        """Returns the Python text of a saved value."""
        return _renamed(entry.text, names, result, self.derivative)

    def _output(self, name: str) -> int:
        return self.derivative.schema.return_names.index(name)


def _renamed(text: str, rename: Mapping[str, str], result: str, derivative: Derivative) -> str:
    word = re.match(r"\w+(?!\w|\()", text)  # not `len(x)`, nor a list, which a fast path does not have
    if word is None:
        return text
    head, rest = word.group(), text[word.end() :]
    names = derivative.schema.return_names
    if head in names and derivative.schema.argument(head) is None:
        head = result if len(names) == 1 else f"{result}[{names.index(head)}]"
    return rename.get(head, head) + rest


def owned(argument: Argument, text: str) -> str:
    """Returns the text of an argument's value that nobody can change later: a list of the caller's as a tuple."""
    if not argument.type.is_list:
        return text
    alone = [f"{text} is None"] * argument.type.is_optional
    number = "in (int, float)" if argument.type.base is BaseType.FLOAT else "is int"
    alone += [f"{text}.__class__ {number}"] * (argument.type.list_size is not None)
    return f"{text} if {' or '.join(alone)} else tuple({text})" if alone else f"tuple({text})"


_METADATA = {
    "shape": "{0}.shape",
    "ndim": "{0}.ndim",
    "numel": "{0}.numel()",
    "dtype": "{0}.dtype",
    "device": "{0}.device",
    "stride": "{0}.stride()",
    "storage_offset": "{0}.storage_offset()",
    "is_complex": "{0}.is_complex()",
    PRESENT: "{0} is not None",
}


def plan(derivative: Derivative) -> Plan:
    """Decides what a record's node saves."""
    schema, analysis = derivative.schema, derivative.analysis
    lists = frozenset(a.name for a in schema.arguments if a.type.is_tensor_list)
    inputs = tuple(a.name for a in derivative.inputs)
    saved = []

    def readers(keys: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(target for f in derivative.formulas if f.key in keys for target in f.targets)

    for argument in schema.arguments:
        if argument.name in analysis.total.values:
            kind = "tensors" if argument.name in lists else "tensor"
            saved.append(Saved(argument.name, kind, argument.name, readers(analysis.value_readers(argument.name))))
    for name in schema.return_names:
        if name in analysis.total.outputs:
            saved.append(Saved(name, "result", name, readers(analysis.value_readers(name))))
    for name, kinds in sorted(analysis.total.metadata.items()):
        for kind in sorted(kinds):
            text = _METADATA.get(kind, "len({0})").format(name)
            if name in lists and kind in ("shape", "ndim", "dtype", "device"):
                text = f"[x.{kind} for x in {name}]"
            saved.append(Saved(saved_name(name, kind, derivative.scope), "value", text, ()))
    for name in kept_lengths(derivative):
        if LENGTH not in analysis.total.metadata.get(name, ()):
            saved.append(Saved(saved_name(name, LENGTH, derivative.scope), "value", f"len({name})", ()))
    for argument in schema.arguments:
        if argument.name in analysis.total.arguments:
            saved.append(Saved(argument.name, "value", argument.name, ()))
    return Plan(derivative, inputs, lists, tuple(saved))
