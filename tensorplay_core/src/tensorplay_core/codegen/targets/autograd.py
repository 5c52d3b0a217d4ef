"""Target ``autograd``: which node records which operator; the one table that joins schemas and nodes."""

from __future__ import annotations

from collections.abc import Iterator

from tensorplay_core.codegen.context import HEADER, CodegenContext, constant
from tensorplay_core.codegen.targets.nodes import node_name

NAME = "autograd"


def generate(context: CodegenContext) -> Iterator[tuple[str, str]]:
    """Yields the name and the text of each file."""
    nodes, schemas, table = [], [], []
    for family, functions in context.families.items():
        derivatives = [d for f in functions if (d := context.derivative(f)) is not None]
        if not derivatives:
            continue
        nodes.append(f"from {context.packages['ops']} import _generated_nodes_{family} as {family}_nodes")
        schemas.append(f"from {context.packages['ops']} import _generated_schemas_{family} as {family}")
        for d in derivatives:
            table.append(f"    ({family}.{constant(d.function.base_name)}, {family}_nodes.{node_name(d)}),")
    body = [
        HEADER + '"""Which node records which operator."""',
        "",
        "from __future__ import annotations",
        "",
        *sorted([*nodes, *schemas]),
        "",
        *(["NODES = (", *table, ")"] if table else ["NODES: tuple[tuple[object, object], ...] = ()"]),
    ]
    yield "_generated_autograd.py", "\n".join(body) + "\n"
