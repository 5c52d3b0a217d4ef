"""Target ``install``: the module by whose import a plugin's operators come into force.

Core's own are put together by hand, in ``ops/load.py``, with everything else that has to be there first.
"""

from __future__ import annotations

from collections.abc import Iterator

from tensorplay_core.codegen.context import HEADER, CodegenContext

NAME = "install"


def generate(context: CodegenContext) -> Iterator[tuple[str, str]]:
    """Yields the name and the text of the file; of none for our own contract."""
    if context.plugin is None:
        return
    package = context.packages["ops"]
    modules = [f"_generated_functional_{family}" for family in _families(context, writing=False)]
    modules += [f"_generated_inplace_{family}" for family in _families(context, writing=True)]
    schemas = [f"_generated_schemas_{family}" for family in context.families]
    methods = any(context.is_method(m) and n not in context.handwritten for n, g in context.sets.items() for m in g)
    handwritten = sorted({module.rpartition(".")[2] for module in context.handwritten.values()})
    imported = sorted([*modules, *schemas, *(["_generated_methods"] if methods else []), *handwritten])
    names = ", ".join([*modules, *handwritten])
    body = [
        HEADER + f'"""Importing this puts the operators of ``{package}`` in force: functions, gradients, methods."""',
        "",
        "from __future__ import annotations",
        "",
        *sorted(
            [
                "import tensorplay_core.ops.load  # noqa: F401  core's operators come first",
                "from tensorplay_core.ops.define import install",
                f"from {package}._generated_autograd import NODES",
                *(f"from {package} import {module}" for module in imported),
            ],
            key=lambda statement: (not statement.startswith("import "), statement),
        ),
        "",
        f'install("{package}", "{context.plugin.namespace}", NODES, ({names}{"," if names else ""}))',
    ]
    yield "_generated_install.py", "\n".join(body) + "\n"


def _families(context: CodegenContext, *, writing: bool) -> list[str]:
    """Returns the families that have a module of functions, or of those that write."""
    found = [
        group[0].function.family
        for name, group in context.sets.items()
        if group[0].is_inplace is writing
        and name not in context.handwritten
        and any(m.derived or m.function.variants for m in group)
    ]
    return list(dict.fromkeys(found))
