"""Laying a graph out in layers, and writing it as SVG.

Sugiyama's method, in short: each box goes one layer below the lowest of those that it comes from; an arrow that passes
layers gets a point in each of them; within a layer, boxes and points are ordered by the mean place of their neighbours,
a few times from above and from below; and then moved towards that mean as far as the order leaves room.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tensorplay_core.autograd.drawing import Arrow, Box

SWEEPS = 8
CHARACTER, LINE = 6.7, 14.0
"""Width and height of a character of the font, in pixels."""
PADDING, GAP, LAYER_GAP, MARGIN = 9.0, 16.0, 34.0, 16.0
POINT_WIDTH = 4.0


class Layout:
    """Where everything lies: boxes come first, then the points that long arrows pass.

    Attributes:
        x, y: the centres.
        width, height: the sizes.
        paths: for each arrow the boxes and points that it goes through.
    """

    def __init__(self, boxes: Sequence[Box], arrows: Sequence[Arrow]) -> None:
        """See the class."""
        self.width = [max(len(line) for line in box.lines) * CHARACTER + 2 * PADDING for box in boxes]
        self.height = [len(box.lines) * LINE + PADDING for box in boxes]
        self.paths: list[list[int]] = []
        layers = _layers(len(boxes), arrows)
        for arrow in arrows:
            path = [arrow.start]
            for layer in range(layers[arrow.start] + 1, layers[arrow.end]):
                path.append(len(layers))
                layers.append(layer)
                self.width.append(POINT_WIDTH)
                self.height.append(0.0)
            self.paths.append([*path, arrow.end])
        self.above: list[list[int]] = [[] for _ in layers]
        self.below: list[list[int]] = [[] for _ in layers]
        for path in self.paths:
            for a, b in itertools.pairwise(path):
                self.below[a].append(b)
                self.above[b].append(a)
        self.rows = [[i for i, layer in enumerate(layers) if layer == n] for n in range(max(layers) + 1)]
        self.x = [0.0] * len(layers)
        self.y = [0.0] * len(layers)
        self._order()
        self._place()

    def _order(self) -> None:
        for row in self.rows:
            self._pack(row)
        for sweep in range(SWEEPS):
            down = sweep % 2 == 0
            for row in self.rows if down else reversed(self.rows):
                row.sort(key=lambda i: self._wanted(i, self.above if down else self.below))
                self._pack(row)

    def _pack(self, row: list[int]) -> None:
        """Sets a row side by side, centred on 0."""
        right = -sum(self.width[i] + GAP for i in row) / 2
        for i in row:
            self.x[i] = right + self.width[i] / 2
            right += self.width[i] + GAP

    def _wanted(self, i: int, neighbours: list[list[int]]) -> float:
        near = neighbours[i]
        return sum(self.x[n] for n in near) / len(near) if near else self.x[i]

    def _place(self) -> None:
        for sweep in range(2 * SWEEPS):
            down = sweep % 2 == 0
            for row in self.rows if down else reversed(self.rows):
                self._move(row, [self._wanted(i, self.above if down else self.below) for i in row])
        left = min(x - w / 2 for x, w in zip(self.x, self.width, strict=True)) - MARGIN
        self.x = [x - left for x in self.x]
        top = MARGIN
        for row in self.rows:
            height = max(self.height[i] for i in row)
            for i in row:
                self.y[i] = top + height / 2
            top += height + LAYER_GAP
        self.size = (max(x + w / 2 for x, w in zip(self.x, self.width, strict=True)) + MARGIN, top - LAYER_GAP + MARGIN)

    def _move(self, row: list[int], wanted: list[float]) -> None:
        """Moves a row's members to where they are wanted, keeping their order: those that collide share their mean."""
        groups: list[tuple[list[int], float]] = []  # members, and the centre of the first that suits them all
        offsets: dict[int, float] = {}
        for i, at in zip(row, wanted, strict=True):
            members, centre = [i], at
            offsets[i] = 0.0
            while groups:
                before, first = groups[-1]
                last = before[-1]
                step = offsets[last] + (self.width[last] + self.width[members[0]]) / 2 + GAP
                if first + step <= centre:
                    break
                groups.pop()
                for member in members:
                    offsets[member] += step
                n, m = len(before), len(members)
                centre = (first * n + (centre - step) * m) / (n + m)
                members = before + members
            groups.append((members, centre))
        for members, centre in groups:
            for member in members:
                self.x[member] = centre + offsets[member]


def _layers(count: int, arrows: Sequence[Arrow]) -> list[int]:
    """Returns the layer of each box: below all that it comes from, and what comes from nothing close to its reader."""
    after: list[list[int]] = [[] for _ in range(count)]
    missing = [0] * count
    for start, end, _ in arrows:
        after[start].append(end)
        missing[end] += 1
    layers = [0] * count
    sources = [i for i in range(count) if not missing[i]]
    ready = list(sources)
    while ready:
        i = ready.pop()
        for n in after[i]:
            layers[n] = max(layers[n], layers[i] + 1)
            missing[n] -= 1
            if not missing[n]:
                ready.append(n)
    for i in sources:
        layers[i] = min((layers[n] - 1 for n in after[i]), default=0)
    return layers


def svg(boxes: Sequence[Box], arrows: Sequence[Arrow]) -> str:
    """Returns a graph as an SVG document."""
    from tensorplay_core.autograd.drawing import COLOURS

    at = Layout(boxes, arrows)
    width, height = at.size
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="Menlo, Consolas, monospace" font-size="11">'
        ),
        (
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            '<path d="M0,0 L8,4 L0,8 z" fill="#546e7a"/></marker></defs>'
        ),
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>',
    ]
    for arrow, path in zip(arrows, at.paths, strict=True):
        dash = ' stroke-dasharray="4 3"' if arrow.dashed else ""
        parts.append(
            f'<path d="{_curve(at, path)}" fill="none" stroke="#546e7a"{dash} marker-end="url(#tip)"/>',
        )
    for i, box in enumerate(boxes):
        x, y, w, h = at.x[i], at.y[i], at.width[i], at.height[i]
        parts.append(
            f'<rect x="{x - w / 2:.1f}" y="{y - h / 2:.1f}" width="{w:.1f}" height="{h:.1f}" rx="5" '
            f'fill="{COLOURS[box.kind]}" stroke="#90a4ae"/>'
        )
        for n, line in enumerate(box.lines):
            baseline = y + (n - (len(box.lines) - 1) / 2) * LINE + 4
            bold = ' font-weight="bold"' if n == 0 and box.kind != "saved" else ""
            parts.append(f'<text x="{x:.1f}" y="{baseline:.1f}" text-anchor="middle"{bold}>{escape(line)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _curve(at: Layout, path: list[int]) -> str:
    """Returns an arrow's line: vertical where it leaves and arrives, bent in the gaps between layers."""
    first, last = path[0], path[-1]
    points = [
        (at.x[first], at.y[first] + at.height[first] / 2),
        *((at.x[i], at.y[i]) for i in path[1:-1]),
        (at.x[last], at.y[last] - at.height[last] / 2),
    ]
    text = f"M{points[0][0]:.1f},{points[0][1]:.1f}"
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        middle = (y0 + y1) / 2
        text += f" C{x0:.1f},{middle:.1f} {x1:.1f},{middle:.1f} {x1:.1f},{y1:.1f}"
    return text
