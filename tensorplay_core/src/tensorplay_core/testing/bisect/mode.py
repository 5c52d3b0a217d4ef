"""The mode of operators that compares: every call on one device is run on another one too, on the same inputs."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from tensorplay_core.dispatch.resolution import at_key
from tensorplay_core.tensor.modes import DispatchMode
from tensorplay_core.testing.bisect.comparison import Difference
from tensorplay_core.testing.bisect.examining import Examined, concerns, examine, kernel_of, keys_of, run_below
from tensorplay_core.testing.bisect.finding import Finding, place_here
from tensorplay_core.testing.bisect.moving import on, tensors_of
from tensorplay_core.testing.bisect.slices import built, laid, smallest
from tensorplay_core.testing.suite.checks import profile_of
from tensorplay_core.types.device import Device

PATIENCE = 2.0
"""Seconds without a word."""


class Stop(BaseException):
    """Ends the program at the first finding, past whatever it catches."""


class Bisect(DispatchMode):
    """Compares every operator that runs on a device, forward and backward, with what another device makes of it.

    What an operator is composed of is compared before it, so the innermost kernel that is wrong is found first.

    Args:
        device: the device that is examined.
        against: the one that is trusted.
        goes_on: keep going after a finding, with the right result in the place of the wrong one.
        factor: what error budgets are multiplied by, besides what the device's own package declares.
        say: called with a line of progress now and then.

    Attributes:
        findings: what was found, each kernel once.
        compared: how many calls were compared.
        skipped: how many calls were not, by operator: random ones, and those that give whatever lies in memory.
    """

    def __init__(
        self,
        device: Device,
        against: Device,
        *,
        goes_on: bool = False,
        factor: float = 1.0,
        say: Callable[[str], None] | None = None,
    ) -> None:
        """See the class."""
        self.device, self.against, self.goes_on, self.factor = device, against, goes_on, factor
        self._profile = profile_of(device.type)
        self.findings: list[Finding] = []
        self.compared = 0
        self.skipped: Counter[str] = Counter()
        self._say, self._said = say, time.monotonic()

    def keeps(self, op: Any, keys: Any) -> bool:
        """An operator that decomposes is compared whole where the device has a kernel of its own for it."""
        step = at_key(op, keys_of(self.device).lowest)
        return step.registration is not None and step.slot == step.key

    def __tensorplay_dispatch__(
        self, func: Any, types: tuple[type, ...], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Runs a call on both devices, and returns what the first gave, or the second where that is wrong."""
        op, kwargs = func._op, dict(kwargs or {})
        if self.findings and not self.goes_on:  # the program only cleans up behind Stop
            return func(*args, **kwargs)
        if not concerns(op, args, kwargs, self.device):
            mine = {t.device.type for t in tensors_of((args, kwargs))} == {self.device.type}
            self.skipped[op.display_name] += mine or "random" in op.tags
            return func(*args, **kwargs)
        before = on(self.against, (args, kwargs), self.device.type)
        factor = self.factor * self._profile.factor(op.display_name)
        found = examine(op, args, kwargs, self.device, self.against, factor, self._run, before)
        self.compared += found.compared
        self._tell(op.display_name)
        if found.difference is None:
            return found.result
        self._note(op, args, kwargs, before, found.difference)
        return self._righted(args, found)

    def _run(self, op: Any, args: Any, kwargs: Any, device: Device) -> Any:
        with self:  # what the kernel is composed of comes here first
            return run_below(op, args, kwargs, device)

    def _note(self, op: Any, args: Any, kwargs: Any, before: Any, difference: Difference) -> None:
        kernel = kernel_of(op, kwargs, self.device)
        place = place_here()
        finding = Finding(op, kernel, self.device, self.against, place, difference, None)
        if any(known.key == finding.key for known in self.findings):
            return
        call = laid((args, kwargs), before)

        def again(call: Any) -> Difference | None:
            one_args, one_kwargs = built(call)
            factor = self.factor * self._profile.factor(op.display_name)
            return examine(op, one_args, one_kwargs, self.device, self.against, factor).difference

        shown = again(call)
        if shown is not None:
            call = smallest(call, lambda smaller: (one := again(smaller)) is not None and one.kind == shown.kind)
            difference = again(call) or shown
        self.findings.append(finding._replace(call=call, difference=difference, reduced=shown is not None))
        if not self.goes_on:
            raise Stop

    def _righted(self, args: Any, found: Examined) -> Any:
        """Returns the right result on the device; a tensor that was written to is put right, and a view left."""
        result = found.result
        own = {id(t) for t in tensors_of(args)}
        rights, results = tensors_of(found.right), tensors_of(result)
        if result is not None and any(id(t) in own for t in results):
            for one, right in zip(results, rights, strict=True):
                if id(one) in own:
                    one.copy_(on(self.device, right, self.against.type))
            return result
        if result is not None and any(t._view is not None for t in results if hasattr(t, "_view")):
            return result
        return on(self.device, found.right, self.against.type)

    def _tell(self, name: str) -> None:
        if self._say is not None and time.monotonic() - self._said > PATIENCE:
            self._said = time.monotonic()
            self._say(f"bisect: {self.compared} calls compared, now {name}")


def progress(text: str) -> None:
    """Prints a line of progress to stderr: over the last one where that is a terminal."""
    end = "\r" if sys.stderr.isatty() else "\n"
    print(f"{text:<78}", file=sys.stderr, end=end, flush=True)
