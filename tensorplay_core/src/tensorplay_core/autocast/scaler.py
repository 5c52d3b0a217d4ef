"""``tp.amp.GradScaler``: a factor on the loss that keeps small float16 gradients from becoming zero.

float16 ends at 6e-8, where many gradients begin. A backward pass through the loss times 65536 moves them up; before
parameters are changed, the gradients are divided by the same factor. Where one of them overflowed, the step is left out
and the factor halved; after many good steps it is doubled. bfloat16 reaches as far as float32 and needs none of this.

Source: P. Micikevicius et al., Mixed precision training, 2018, section 3.2; the arguments and the order of calls that
are allowed are those of ``torch.amp.GradScaler``. There is no class of optimizers here, so whatever has parameters and
can be called will do.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from math import inf, isfinite
from typing import Any

from tensorplay_core.autocast.mode import check_device_type
from tensorplay_core.autocast.stepping import parameters_of, step_and_target
from tensorplay_core.autograd.modes import no_grad
from tensorplay_core.errors import ArgumentError, AutocastError, ValueRangeError, fix
from tensorplay_core.tensor.tensor import Tensor, TensorBase
from tensorplay_core.types import dtype as dt

_UNSCALED, _STEPPED = "unscaled", "stepped"
_LEAST = 2.0**-126
"""The least factor: the normal float32 numbers end there, and its inverse is finite in float32."""


class _Step:
    """What is known of the parameters of one step since the last ``update``.

    Attributes:
        of: the parameters, kept so that no other object gets their identity.
        stage: what was done last.
        found: for each device, whether a gradient there is not finite, as a 0-d tensor.
    """

    def __init__(self, of: list[Tensor]) -> None:
        """See the class."""
        self.of = of
        self.stage = ""
        self.found: list[Tensor] = []


class GradScaler:
    """Scales losses, unscales gradients, and leaves steps out whose gradients are not finite.

    An optimizer is any object with a method ``step`` and ``param_groups``, a list of mappings with the tensors under
    ``"params"``, or ``parameters``, the tensors themselves (a method that returns them too). Without such an object,
    :meth:`step` takes a function that changes the parameters, and the parameters by name.

    Args:
        device: the device type, as in PyTorch; only its name is looked at, since the factor is a number here.
        init_scale: the factor to begin with.
        growth_factor: what the factor is multiplied by after ``growth_interval`` steps without an overflow.
        backoff_factor: what it is multiplied by after a step that was left out.
        growth_interval: see ``growth_factor``.
        enabled: False makes all methods do nothing, except that :meth:`step` steps.

    Raises:
        ValueRangeError: the factors would not grow and shrink.

    Example:
        >>> import tensorplay as tp
        >>> weight, x = tp.ones(2, 2, requires_grad=True), tp.ones(1, 2)
        >>> scaler = tp.amp.GradScaler(init_scale=1024)
        >>> def descend():
        ...     with tp.no_grad():
        ...         weight.sub_(weight.grad, alpha=0.5)
        >>> with tp.autocast("cpu", dtype=tp.float16):
        ...     loss = (x @ weight).float().sum()
        >>> scaler.scale(loss).backward()
        >>> scaler.step(descend, parameters=[weight])
        >>> scaler.update()
        >>> weight.tolist(), scaler.get_scale()
        ([[0.5, 0.5], [0.5, 0.5]], 1024.0)
    """

    def __init__(
        self,
        device: str | None = None,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        """See the class."""
        if device is not None:
            check_device_type("GradScaler", device)
        self._enabled = bool(enabled)
        self._scale = _checked_scale(init_scale)
        self._scaled = False
        self._good_steps = 0
        self._steps: dict[Any, _Step] = {}
        self.set_growth_factor(growth_factor)
        self.set_backoff_factor(backoff_factor)
        self.set_growth_interval(growth_interval)

    # -------------------------------------------------------------------------------------------- the four calls

    def scale(self, outputs: Any) -> Any:
        """Returns a tensor times the factor, or an iterable of tensors, each of them times it.

        Raises:
            ArgumentError: it is neither.
        """
        if not self._enabled:
            return outputs
        self._scaled = True
        return self._times_scale(outputs)

    def _times_scale(self, outputs: Any) -> Any:
        if isinstance(outputs, Tensor):
            return outputs * self._scale
        if isinstance(outputs, Iterable) and not isinstance(outputs, (str, Mapping)):
            scaled = [self._times_scale(one) for one in outputs]
            return tuple(scaled) if isinstance(outputs, tuple) else scaled
        raise ArgumentError(
            f"scale: takes a tensor or an iterable of tensors, not {outputs!r}" + fix("pass the loss before .item().")
        )

    def unscale_(self, optimizer: Any) -> None:
        """Divides the gradients of an optimizer by the factor, for whoever wants to see or clip them before the step.

        Args:
            optimizer: the optimizer, or the parameters: an iterable of tensors.

        Raises:
            AutocastError: nothing was scaled; or it is the second time since :meth:`update`, for some of them too, or
                after the step.
            ValueRangeError: a gradient is float16, in which the difference that scaling makes is lost.
        """
        if not self._enabled:
            return
        self._check_scaled("unscale_")
        parameters = parameters_of("unscale_", optimizer)
        step = self._step_of("unscale_", parameters)
        if step.stage:
            done = "was called for them already" if step.stage == _UNSCALED else "comes after their step()"
            raise AutocastError(
                f"unscale_: it {done} since the last update()"
                + fix("call unscale_ at most once, then step, then update, for each set of gradients.")
            )
        self._unscale(step, parameters)

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Unscales the gradients, unless that was done, and steps if all of them are finite.

        Args:
            optimizer: the optimizer; or a function that changes the parameters, which are then named with
                ``parameters=``, an iterable of tensors.
            *args: passed on.
            **kwargs: passed on.

        Returns:
            What the step returns; None where it was left out.

        Raises:
            AutocastError: nothing was scaled, no parameter has a gradient, some of them were unscaled without the
                others, or it is the second step since :meth:`update`.
            ArgumentError: it is no optimizer and no function with parameters.
        """
        run, target = step_and_target(optimizer, kwargs)
        if not self._enabled:
            return run(*args, **kwargs)
        if "closure" in kwargs:
            raise AutocastError(
                "step: a closure would compute losses that are not scaled"
                + fix("step without one, or with GradScaler(enabled=False) in bfloat16 or float32.")
            )
        self._check_scaled("step")
        parameters = parameters_of("step", target)
        step = self._step_of("step", parameters)
        if step.stage == _STEPPED:
            raise AutocastError("step: it was called for them already since the last update()" + fix("call update()."))
        if not step.stage:
            self._unscale(step, parameters)
        if not step.found:
            raise AutocastError(
                "step: no parameter has a gradient" + fix("call scaler.scale(loss).backward() before the step.")
            )
        result = None if _overflowed(step) else run(*args, **kwargs)
        step.stage = _STEPPED  # not before: a step that raises can be tried again
        return result

    def update(self, new_scale: Any = None) -> None:
        """Adapts the factor to the steps since the last call, or sets it.

        Args:
            new_scale: the factor from now on, a number or a tensor of one element.

        Raises:
            AutocastError: nothing was scaled, or no gradients were looked at.
            ValueRangeError: ``new_scale`` is not finite, or less than 2**-126.
        """
        if not self._enabled:
            return
        self._check_scaled("update")
        if new_scale is not None:
            self._scale = _checked_scale(new_scale)
        else:
            checked = [step for step in self._steps.values() if step.found]
            if not checked:
                raise AutocastError(
                    "update: no gradients were looked at since the last update()"
                    + fix("call step(optimizer) before update().")
                )
            if any(_overflowed(step) for step in checked):
                self._scale = max(_float32(self._scale * self._backoff_factor), _LEAST)
                self._good_steps = 0
            else:
                self._grow()
        self._steps = {}

    # ------------------------------------------------------------------------------------------------- how it is done

    def _grow(self) -> None:
        self._good_steps += 1
        if self._good_steps >= self._growth_interval:
            grown = _float32(self._scale * self._growth_factor)
            self._scale = grown if isfinite(grown) else self._scale
            self._good_steps = 0

    def _step_of(self, method: str, parameters: list[Tensor]) -> _Step:
        """Returns what is known of parameters, whoever named them, and in whatever order.

        Raises:
            AutocastError: the gradients of some of them were unscaled together with others.
        """
        key = frozenset(map(id, parameters))
        for other, known in self._steps.items():
            if other != key and other & key and known.stage:
                raise AutocastError(
                    f"{method}: some of these gradients were unscaled already since the last update(), and others not"
                    + fix("name the same parameters in unscale_ and in step.")
                )
        return self._steps.setdefault(key, _Step(parameters))

    def _check_scaled(self, method: str) -> None:
        if not self._scaled:
            raise AutocastError(
                f"{method}: nothing was scaled yet" + fix("call scaler.scale(loss).backward(), not loss.backward().")
            )

    def _unscale(self, step: _Step, parameters: list[Tensor]) -> None:
        gradients = {id(p.grad): p.grad for p in parameters if p.grad is not None}.values()
        for gradient in gradients:
            if gradient.dtype is dt.float16:
                raise ValueRangeError(
                    "unscale_: a gradient is float16, and those that scaling has saved would be lost again"
                    + fix("keep parameters in float32: autocast casts them where that is fast.")
                )
        found: dict[Any, Tensor] = {}
        with no_grad():
            for gradient in gradients:
                infinite = ~gradient.isfinite().all()
                known = found.get(gradient.device)
                found[gradient.device] = infinite if known is None else known | infinite
                gradient.mul_(1.0 / self._scale)
        step.found = list(found.values())
        step.stage = _UNSCALED

    # -------------------------------------------------------------------------------------------------- the settings

    def get_scale(self) -> float:
        """Returns the factor; 1.0 where scaling is off."""
        return self._scale if self._enabled else 1.0

    def get_growth_factor(self) -> float:
        """Returns what the factor is multiplied by when it grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Sets what the factor is multiplied by when it grows."""
        if not new_factor > 1.0 or new_factor == inf:
            raise ValueRangeError(f"GradScaler: growth_factor must be above 1, not {new_factor!r}")
        self._growth_factor = float(new_factor)

    def get_backoff_factor(self) -> float:
        """Returns what the factor is multiplied by after a step that was left out."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Sets what the factor is multiplied by after a step that was left out."""
        if not 0.0 < new_factor < 1.0:
            raise ValueRangeError(f"GradScaler: backoff_factor must be between 0 and 1, not {new_factor!r}")
        self._backoff_factor = float(new_factor)

    def get_growth_interval(self) -> int:
        """Returns after how many good steps in a row the factor grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Sets after how many good steps in a row the factor grows."""
        if not isinstance(new_interval, int) or new_interval < 1:
            raise ValueRangeError(f"GradScaler: growth_interval is a positive integer, not {new_interval!r}")
        self._growth_interval = new_interval

    def is_enabled(self) -> bool:
        """Returns whether scaling is on."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """Returns factor, settings and the number of good steps in a row, as PyTorch names them; {} where it is off."""
        if not self._enabled:
            return {}
        return {
            "scale": self._scale,
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._good_steps,
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Goes on where another scaler was, PyTorch's too.

        Raises:
            AutocastError: the state is empty: it is that of a scaler that was off.
            ArgumentError: something is missing in it; nothing is changed.
        """
        if not self._enabled:
            return
        if not state_dict:
            raise AutocastError(
                "load_state_dict: the state is empty, as that of a scaler that was off"
                + fix("load it into GradScaler(enabled=False), or begin with a new one.")
            )
        if missing := [name for name in self.state_dict() if name not in state_dict]:
            raise ArgumentError(f"load_state_dict: the state has no {', '.join(missing)}" + fix("pass a state_dict()."))
        scale, good = _checked_scale(state_dict["scale"]), int(state_dict["_growth_tracker"])
        other = GradScaler(None, scale, *(state_dict[name] for name in _SETTINGS))
        self.__dict__.update({f"_{name}": getattr(other, f"_{name}") for name in _SETTINGS})
        self._scale, self._good_steps = scale, good

    def __getstate__(self) -> dict[str, Any]:
        """Returns what is pickled.

        Raises:
            AutocastError: it is between a step and ``update``, and the optimizers are not its own to save.
        """
        if self._steps:
            raise AutocastError(
                "GradScaler: it cannot be pickled between a step and update()" + fix("pickle it after update().")
            )
        return dict(self.__dict__)


_SETTINGS = ("growth_factor", "backoff_factor", "growth_interval")


def _overflowed(step: _Step) -> bool:
    return any(one.item() for one in step.found)


def _float32(value: float) -> float:
    """Returns the nearest float32: the factor is one, as in PyTorch, so that it multiplies any tensor exactly."""
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return inf


def _checked_scale(value: Any) -> float:
    if isinstance(value, TensorBase):
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not _LEAST <= _float32(value) < inf:
        raise ValueRangeError(
            f"GradScaler: the scale is a positive, finite number, not {value!r}"
            + fix("2.0 ** 16 is a good start, and 2.0 ** -126 the least.")
        )
    return _float32(value)
