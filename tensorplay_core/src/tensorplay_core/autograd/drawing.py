"""``tp.autograd.graph(loss)``: a picture of the graph that a backward pass will walk, as DOT and as SVG.

Leaves are at the top and results at the bottom, as the program computed them; a backward pass goes the other way. Each
operator shows the type and shape of its result and, dashed, the tensors that its node saved. The SVG is laid out here,
so no other program is needed; the DOT text is for those who have Graphviz.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tensorplay_core.autograd.function_node import FunctionNode, Kept
from tensorplay_core.autograd.kept import DUAL, PACKED
from tensorplay_core.autograd.node import AccumulateGrad, Node, NoFormula, Output
from tensorplay_core.dispatch.tensor_type import TensorType
from tensorplay_core.errors import ArgumentError, AutogradError, fix
from tensorplay_core.tensor.tensor import Tensor, TensorBase

COLOURS = {
    "leaf": "#cfe3f7",
    "operator": "#eceff1",
    "function": "#fde2c0",
    "no formula": "#f7c9c9",
    "result of several": "#ffffff",
    "saved": "#fff7d1",
    "output": "#cdeccd",
}
"""The fill of a box, by its kind."""


class Box(NamedTuple):
    """One box: its kind, which is a key of :data:`COLOURS`, and its lines of text."""

    kind: str
    lines: tuple[str, ...]


class Arrow(NamedTuple):
    """From one box to another, by their places; dashed for what is saved."""

    start: int
    end: int
    dashed: bool = False


class Drawing:
    """A picture of a graph; notebooks show it.

    Attributes:
        boxes, arrows: what is drawn.
    """

    def __init__(self, boxes: Sequence[Box], arrows: Sequence[Arrow]) -> None:
        """See the class."""
        self.boxes, self.arrows = tuple(boxes), tuple(arrows)

    def dot(self) -> str:
        """Returns the graph in Graphviz's language."""
        lines = ["digraph autograd {", '  node [shape=box style="rounded,filled" fontname="monospace" fontsize=10];']
        for i, (kind, text) in enumerate(self.boxes):
            label = "\\n".join(line.replace("\\", "\\\\").replace('"', '\\"') for line in text)
            lines.append(f'  n{i} [label="{label}" fillcolor="{COLOURS[kind]}"];')
        for start, end, dashed in self.arrows:
            lines.append(f"  n{start} -> n{end}{' [style=dashed]' if dashed else ''};")
        return "\n".join([*lines, "}", ""])

    def svg(self) -> str:
        """Returns the graph as an SVG document."""
        from tensorplay_core.autograd.drawing_svg import svg

        return svg(self.boxes, self.arrows)

    def save(self, path: str | Path) -> Path:
        """Writes the picture to a file: SVG, or DOT, as its name ends.

        Raises:
            ArgumentError: it ends in neither ``.svg`` nor ``.dot`` or ``.gv``.
        """
        path = Path(path)
        made = {".svg": self.svg, ".dot": self.dot, ".gv": self.dot}.get(path.suffix)
        if made is None:
            raise ArgumentError(
                f"a graph is saved as .svg, .dot or .gv, not {path.suffix or path.name!r}"
                + fix("for other formats give the .dot file to Graphviz: dot -Tpng graph.dot.")
            )
        path.write_text(made(), encoding="utf-8")
        return path

    def _repr_svg_(self) -> str:
        return self.svg()

    def __repr__(self) -> str:
        """Counts what is drawn."""
        return f"<Drawing of {len(self.boxes)} boxes; .svg(), .dot(), .save(path)>"


def draw(
    tensors: Tensor | Sequence[Tensor] | Mapping[str, Tensor],
    *,
    params: Mapping[str, Tensor] | Iterable[tuple[str, Tensor]] | None = None,
    show_saved: bool = True,
    max_nodes: int = 200,
) -> Drawing:
    r"""Draws the graph that led to tensors.

    Args:
        tensors: the results; a dict gives them names.
        params: names for tensors of the graph, leaves or computed, such as a module's ``named_parameters()``.
        show_saved: draw what nodes have saved.
        max_nodes: raise for a larger graph, of which a picture would show nothing.

    Returns:
        A picture: ``.svg()``, ``.dot()``, ``.save(path)``.

    Raises:
        AutogradError: a tensor has no graph.
        ArgumentError: the graph has more nodes than ``max_nodes``.

    Example:
        >>> import tensorplay as tp
        >>> w = tp.ones(3, requires_grad=True)
        >>> picture = draw((w * 2).sum(), params={"w": w}, show_saved=False)
        >>> [box.lines for box in picture.boxes]
        [('output', 'float32 ()'), ('sum', 'float32 ()'), ('mul', 'float32 (3,)'), ('w', 'float32 (3,)')]
    """
    roots = _named_roots(tensors)
    names: dict[Node, str] = {}
    for name, tensor in params.items() if isinstance(params, Mapping) else params or ():
        if tensor._node is not None:
            names[tensor._node] = name
    boxes: list[Box] = []
    arrows: list[Arrow] = []
    places: dict[Node, int] = {}
    waiting: list[tuple[Node, int]] = []
    for name, root in roots:
        boxes.append(Box("output", (name, _described(root._type, root.shape))))
        assert root._node is not None
        waiting.append((root._node, len(boxes) - 1))
    while waiting:
        node, below = waiting.pop()
        place = places.get(node)
        if place is None:
            if len(places) >= max_nodes:
                raise ArgumentError(
                    f"the graph has more than {max_nodes} nodes, of which a picture shows little"
                    + fix("draw a part of it, a tensor nearer to its leaves; or pass max_nodes=.")
                )
            place = places[node] = len(boxes)
            boxes.append(_box(node, names.get(node)))
            waiting += [(edge, place) for edge in reversed(node.edges) if edge is not None]
            if show_saved:
                for text in _saved(node):
                    boxes.append(Box("saved", text))
                    arrows.append(Arrow(len(boxes) - 1, place, dashed=True))
        arrows.append(Arrow(place, below))
    return Drawing(boxes, arrows)


def _named_roots(tensors: Any) -> list[tuple[str, Tensor]]:
    if isinstance(tensors, TensorBase):
        roots: list[tuple[str, Any]] = [("output", tensors)]
    elif isinstance(tensors, Mapping):
        roots = list(tensors.items())
    else:
        many = tensors if isinstance(tensors, Iterable) else (tensors,)
        roots = [(f"output {i}", y) for i, y in enumerate(many)]
    for name, y in roots:
        if not isinstance(y, TensorBase):
            raise ArgumentError(
                f"what is drawn are tensors, and {name} is {type(y).__name__}"
                + fix("pass the loss, or a list of results.")
            )
        if y._node is None:
            raise AutogradError(
                f"{name} (shape {y.shape}) has no graph: it does not require grad"
                + fix("make an input with requires_grad=True, and compute outside no_grad.")
            )
    if not roots:
        raise ArgumentError(
            "there is nothing to draw: no tensor was given" + fix("pass the loss, or a list of results.")
        )
    return roots


def _described(type: TensorType, shape: tuple[int, ...]) -> str:
    device = "" if type.device.type == "cpu" else f" {type.device}"
    return f"{type.dtype.name} {tuple(shape)}{device}"


def _box(node: Node, name: str | None) -> Box:
    if isinstance(node, AccumulateGrad):
        return Box("leaf", (name or "leaf", _described(node.type, node.shape)))
    named = (name,) if name else ()
    if isinstance(node, Output):
        return Box("result of several", (*named, f"result {node.index}", _described(node.type, node.shape)))
    kind = "function" if isinstance(node, FunctionNode) else "no formula" if isinstance(node, NoFormula) else "operator"
    title = node.op.display_name if node.op is not None else node.name.removesuffix("Backward")
    if isinstance(node.type, tuple):
        return Box(kind, (*named, title, f"{len(node.type)} results"))
    return Box(kind, (*named, title, _described(node.type, node.shape)))


def _saved(node: Node) -> list[tuple[str, str]]:
    """Returns the tensors that a node keeps, each as its name and what it is; of a freed node none."""
    found = []
    for i, item in enumerate(node.saved or ()):
        name = node.saved_names[i] if i < len(node.saved_names) else f"saved {i}"
        if isinstance(item, Kept):
            name, item = item.name, item.saved
        for array, type, cell in _tensors(item):
            packed = cell[0] in (PACKED, DUAL)
            what = f"{type.dtype.name}, held by a hook" if packed else _described(type, array.shape)
            found.append((f"saved {name}", what))
    return found


def _tensors(item: Any) -> list[tuple[Any, TensorType, list[Any]]]:
    """Returns the saved tensors in what a node keeps under one name: one, or a list of them."""
    if isinstance(item, tuple) and len(item) == 5 and isinstance(item[1], TensorType):
        return [(item[0], item[1], item[3])]
    if isinstance(item, (tuple, list)):
        return [found for one in item for found in _tensors(one)]
    return []
