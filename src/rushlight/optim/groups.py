"""ParamGroup: parameters and the hyperparameters that they share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Any, cast

from rushlight.eager.tensor import Tensor
from rushlight.support.errors import fail, require


class ParamGroup(dict[str, Any]):
    """One group: `params` and hyperparameters by name.

    While a training step is compiled, its numbers are run-time scalars, which only feed arithmetic. Whether a switch
    (one such as momentum, whose operations are left out when it is exactly 0) is off is no run-time matter, so it is
    noted in `off` when a plain number is assigned.
    """

    off: dict[str, bool]

    def __init__(self, values: Mapping[str, object], switches: Iterable[str]) -> None:
        super().__init__(values)
        self.off = {name: _is_zero(self.get(name)) for name in switches}

    def __setitem__(self, name: str, value: object) -> None:
        super().__setitem__(name, value)
        if name in self.off and value.__class__ in (int, float, bool):
            self.off[name] = _is_zero(value)

    def update(self, *args: Any, **kwargs: object) -> None:
        """Assign several entries."""
        for name, value in dict(*args, **kwargs).items():
            self[name] = value

    def __reduce__(self) -> tuple[object, ...]:
        return ParamGroup, (dict(self), tuple(self.off))


def _is_zero(value: object) -> bool:
    return value.__class__ in (int, float, bool) and value == 0


def listed_params(params: Any) -> tuple[list[object], list[str]]:
    """Return the parameters of a group, and their names where they come as (name, parameter) pairs."""
    if isinstance(params, Tensor):
        return [params], []
    if isinstance(params, set):
        fail("A001", "optimizer parameters need to be in an order, a set has none", hint="pass a list")
    listed = list(params)
    if listed and all(isinstance(entry, tuple) for entry in listed):
        return [param for _, param in listed], [name for name, _ in listed]
    return listed, []


def per_group(groups: Sequence[ParamGroup], value: float | Sequence[float], name: str) -> list[float]:
    """Return a value for each group, from one for all or several (A002 if their number is another)."""
    count = len(groups)
    # numpy's scalars are Real, which the type checker knows of no float
    if isinstance(value, float | int | Real) or (isinstance(value, Tensor) and value.ndim == 0):
        return [cast(float, value)] * count
    require(len(value) == count, "A002", f"{name} must have the same length as optimizer.param_groups: {count}")
    return list(value)


def set_momentum(group: ParamGroup, momentum: float) -> None:
    """Set the momentum of a group, or the first one of its betas."""
    if "betas" in group:
        group["betas"] = (momentum, *group["betas"][1:])
    else:
        group["momentum"] = momentum
