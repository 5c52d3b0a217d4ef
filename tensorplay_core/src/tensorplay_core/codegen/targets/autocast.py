"""Target ``autocast``: the operators that autocast has a rule for, by policy.

A list for readers and for registration alike; what each policy does is written by hand in ``autocast/policies.py``.
"""

from __future__ import annotations

from collections.abc import Iterator

from tensorplay_core.codegen.context import HEADER, CodegenContext, indent
from tensorplay_core.codegen.contract import AUTOCAST_POLICIES, NativeFunction

NAME = "autocast"
FOLDER = "autocast"


def generate(context: CodegenContext) -> Iterator[tuple[str, str]]:
    """Yields the name and the text of the file; of none where no operator has a policy."""
    functions = context.contract.functions
    body = [line for policy in AUTOCAST_POLICIES if policy != "none" for line in _policy(policy, functions)]
    if not any(function.autocast != "none" for function in functions):
        return
    head = [HEADER + '"""The operators that autocast has a rule for, by policy."""', ""]
    head += ["from __future__ import annotations", "", "RULES: dict[str, tuple[str, ...]] = {"]
    yield "_generated_rules.py", "\n".join([*head, *indent(body), "}"]) + "\n"


def _policy(policy: str, functions: tuple[NativeFunction, ...]) -> list[str]:
    """Returns the entry of one policy, its operators in the order of the contract."""
    names = [f'    "{f.qualified_name.removeprefix("tp::")}",' for f in functions if f.autocast == policy]
    return [f'"{policy}": (', *names, "),"] if names else [f'"{policy}": (),']
