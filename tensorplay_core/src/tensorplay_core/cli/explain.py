"""``tensorplay explain``: the road of a call that is written as text."""

from __future__ import annotations

import click

from tensorplay_core.cli.common import Command, json_option, print_json, usage_error
from tensorplay_core.cli.namespace import device_over, namespace_option


@click.command(cls=Command)
@click.argument("call")
@namespace_option
@json_option
def explain(call: str, namespace: str | None, as_json: bool) -> None:
    """Say what would run for CALL, and why, without running it.

    \b
      tensorplay explain 'add(float32[2,3], float32[3] grad)'
      tensorplay explain 'matmul(float32[2,3] cuda, float32[3,4] cuda)'
      tensorplay explain 'cat([float32[2,3], float32[1,3]], dim=0)'
      tensorplay explain 'exp(float32[2,3] jax_numpy)' --namespace jax.numpy

    A tensor is its dtype and sizes, then a device, grad or inference. The device need not be here. Exit code 1 where
    the call would fail, or cannot run on this machine.
    """  # noqa: D301  the backslash is click's mark for lines that are not to be folded, so it has to be read
    import tensorplay_core.ops.load  # noqa: F401
    from tensorplay_core.ops.explain_text import CallTextError, explain_text

    if namespace is not None:
        device_over(namespace)
    try:
        road = explain_text(call)
    except CallTextError as error:
        usage_error(str(error).removeprefix("explain: "))
    if as_json:
        print_json(road.as_dict())
    else:
        click.echo(str(road))
    if not road.ok:
        click.get_current_context().exit(1)
