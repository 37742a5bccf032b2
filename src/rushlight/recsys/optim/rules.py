"""Update rules of table rows, as FBGEMM has them: each sees the rows of a batch, their summed gradients, their state.

A rule is a record of numbers. `update` gives the new rows and states; a row that no id names keeps both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from typing import Any

import rushlight as rl
from rushlight import Tensor
from rushlight.optim import Optimizer
from rushlight.support.errors import fail, require
from rushlight.support.frozen import frozen

States = dict[str, Tensor]
Step = int | Tensor
"""The number of a step, from 1; float64 as a tensor."""


class RowSums:
    """Figures of whole rows: of a table's own columns."""

    def mean(self, rows: Tensor) -> Tensor:
        """Return the mean of each row."""
        return rows.mean(1)

    def norm(self, rows: Tensor) -> Tensor:
        """Return the length of each row."""
        return rows.norm(dim=1)


OWN_COLUMNS = RowSums()


@frozen
class RowRule:
    """How rows are updated. `lr` is the learning rate; a decay adds `weight_decay` times the row to its gradient."""

    lr: float = 0.01
    weight_decay: float = 0.0

    def __new__(cls, *numbers: Any, **kwargs: Any) -> Any:
        """Return a rule, or where parameters come first, an optimizer of them by it."""
        if numbers and not isinstance(numbers[0], int | float):
            return RuleOptimizer(numbers[0], rule_of(cls, kwargs))
        return object.__new__(cls)

    def state_shapes(self, dim: int) -> Mapping[str, tuple[int, ...]]:
        """Return the shape that each state has for one row."""
        del dim
        return {}

    def update(
        self, rows: Tensor, gradient: Tensor, states: States, step: Step, sums: RowSums = OWN_COLUMNS
    ) -> tuple[Tensor, States]:
        """Return new rows and states; `step` counts from 1, `sums` are of the rows that these are part of."""
        raise NotImplementedError

    def couples_columns(self) -> bool:
        """Return whether the update of a number depends on others of its row."""
        return False

    def _decayed(self, rows: Tensor, gradient: Tensor) -> Tensor:
        return gradient + self.weight_decay * rows if self.weight_decay else gradient


@frozen
class SGD(RowRule):
    """Plain steps: `row -= lr * gradient`."""

    def update(
        self, rows: Tensor, gradient: Tensor, states: States, step: Step, sums: RowSums = OWN_COLUMNS
    ) -> tuple[Tensor, States]:
        """Return new rows."""
        del step, sums
        return rows - self.lr * self._decayed(rows, gradient), states


@frozen
class Adagrad(RowRule):
    """Steps over the root of summed squares, number by number."""

    eps: float = 1e-8

    def state_shapes(self, dim: int) -> Mapping[str, tuple[int, ...]]:
        """Return a sum for each number."""
        return {"momentum1": (dim,)}

    def update(
        self, rows: Tensor, gradient: Tensor, states: States, step: Step, sums: RowSums = OWN_COLUMNS
    ) -> tuple[Tensor, States]:
        """Return new rows and sums."""
        del step, sums
        gradient = self._decayed(rows, gradient)
        total = states["momentum1"] + gradient * gradient
        return rows - self.lr * gradient / (total.sqrt() + self.eps), {"momentum1": total}


@frozen
class RowWiseAdagrad(RowRule):
    """Steps over the root of summed mean squares: one number of state for a row."""

    eps: float = 1e-8

    def state_shapes(self, dim: int) -> Mapping[str, tuple[int, ...]]:
        """Return a sum for each row."""
        del dim
        return {"momentum1": ()}

    def update(
        self, rows: Tensor, gradient: Tensor, states: States, step: Step, sums: RowSums = OWN_COLUMNS
    ) -> tuple[Tensor, States]:
        """Return new rows and sums."""
        del step
        gradient = self._decayed(rows, gradient)
        total = states["momentum1"] + sums.mean(gradient * gradient)
        return rows - self.lr * gradient / (total.sqrt() + self.eps).unsqueeze(1), {"momentum1": total}

    def couples_columns(self) -> bool:
        """Return True: a row has one sum."""
        return True


@frozen
class Adam(RowRule):
    """Adam, whose moments of a row change when an id names it; the decay is apart from the moments."""

    eps: float = 1e-8
    beta1: float = 0.9
    beta2: float = 0.999

    def state_shapes(self, dim: int) -> Mapping[str, tuple[int, ...]]:
        """Return two moments for each number."""
        return {"momentum1": (dim,), "momentum2": (dim,)}

    def update(
        self, rows: Tensor, gradient: Tensor, states: States, step: Step, sums: RowSums = OWN_COLUMNS
    ) -> tuple[Tensor, States]:
        """Return new rows and moments."""
        direction, states = self._direction(rows, gradient, states, step, sums)
        return rows - self.lr * direction, states

    def _squares(self, gradient: Tensor, sums: RowSums) -> Tensor:
        del sums
        return gradient * gradient

    def _direction(
        self, rows: Tensor, gradient: Tensor, states: States, step: Step, sums: RowSums
    ) -> tuple[Tensor, States]:
        first = self.beta1 * states["momentum1"] + (1 - self.beta1) * gradient
        second = self.beta2 * states["momentum2"] + (1 - self.beta2) * self._squares(gradient, sums)
        root = (second / (1 - self.beta2**step)).sqrt() + self.eps
        if root.ndim < rows.ndim:
            root = root.unsqueeze(1)
        direction = first / (1 - self.beta1**step) / root + self.weight_decay * rows
        return direction, {"momentum1": first, "momentum2": second}


@frozen
class PartialRowWiseAdam(Adam):
    """Adam with one second moment for a row, of the mean square."""

    def state_shapes(self, dim: int) -> Mapping[str, tuple[int, ...]]:
        """Return a first moment for each number, a second one for each row."""
        return {"momentum1": (dim,), "momentum2": ()}

    def couples_columns(self) -> bool:
        """Return True: a row has one second moment."""
        return True

    def _squares(self, gradient: Tensor, sums: RowSums) -> Tensor:
        return sums.mean(gradient * gradient)


@frozen
class LAMB(Adam):
    """Adam's direction, as long as the row is: scaled by the ratio of their norms."""

    def update(
        self, rows: Tensor, gradient: Tensor, states: States, step: Step, sums: RowSums = OWN_COLUMNS
    ) -> tuple[Tensor, States]:
        """Return new rows and moments."""
        direction, states = self._direction(rows, gradient, states, step, sums)
        length, own = sums.norm(direction), sums.norm(rows)
        ratio = rl.where((own > 0) & (length > 0), own / length, 1.0)
        return rows - self.lr * ratio.unsqueeze(1) * direction, states

    def couples_columns(self) -> bool:
        """Return True: the norms are of rows."""
        return True


class RuleOptimizer(Optimizer):
    """A rule as an optimizer of whole tables, [rows, columns] each: rows without a gradient are updated too.

    RowWiseAdagrad(table.parameters(), lr=0.1)
    """

    def __init__(self, params: Iterable[Tensor], rule: RowRule) -> None:
        self._kind = type(rule)
        super().__init__(params, asdict(rule))

    def init_state(self, param: Tensor, group: Mapping[str, Any]) -> dict[str, Any]:
        """Return the states of all rows, and the step."""
        shapes = self._rule(group).state_shapes(param.shape[1])
        return {"step": 0, **{name: rl.zeros(param.shape[0], *shape) for name, shape in shapes.items()}}

    def update_param(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: Mapping[str, Any]) -> None:
        """Step."""
        state["step"] += 1
        states = {name: value for name, value in state.items() if name != "step"}
        rows, states = self._rule(group).update(param.detach(), grad, states, state["step"])
        param.copy_(rows)
        state.update(states)

    def _rule(self, group: Mapping[str, Any]) -> RowRule:
        return self._kind(**{one.name: group[one.name] for one in fields(self._kind)})


# The optimizers of whole tensors that a rule stands for.
_RULES: dict[str, type[RowRule]] = {"SGD": SGD, "Adagrad": Adagrad, "Adam": Adam}


def rule_of(kind: type[object], kwargs: Mapping[str, Any]) -> RowRule:
    """Return the rule of a class of optimizers, `rl.optim`'s or a rule's own, with its numbers. A002 for others."""
    rule = kind if issubclass(kind, RowRule) else _RULES.get(kind.__name__)
    if rule is None:
        fail("A002", f"tables have no rule for {kind.__name__}", known=sorted(_RULES))
    numbers = dict(kwargs)
    if "betas" in numbers:
        numbers["beta1"], numbers["beta2"] = numbers.pop("betas")
    known = [one.name for one in fields(rule)]
    odd = sorted(set(numbers) - set(known))
    require(not odd, "A002", f"{rule.__name__}: a rule of rows has no such numbers", given=odd, known=known)
    return rule(**numbers)
