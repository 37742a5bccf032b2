"""Running an executable on tensors whose sizes were traced as symbols."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING

from rushlight.eager.execution.operands import form_of_operand
from rushlight.eager.execution.plan import KernelPlan
from rushlight.eager.tensor_meta import form_of
from rushlight.ir.dtype import int64
from rushlight.sym import Size, SizeExpr, evaluate

if TYPE_CHECKING:
    from rushlight.build import Executable
    from rushlight.build.executable import Commit
    from rushlight.eager.handle import Handle

_MOST_PLANS = 512  # of one executable: sizes that values give may be others at each call


class Launching:
    """The executable of a graph that takes tensors, numbers, and `sizes` that none of them shows.

    It is made when it is first asked for.
    """

    def __init__(self, sizes: Sequence[SizeExpr], make: Callable[[], Executable]) -> None:
        self.sizes = tuple(sizes)
        self._make = make
        self._executable: Executable | None = None
        self._lock = threading.RLock()
        self._plans: dict[Hashable, KernelPlan] = {}

    @property
    def executable(self) -> Executable:
        """The executable."""
        if self._executable is None:
            with self._lock:  # threads that come meanwhile wait for the first
                if self._executable is None:
                    self._executable = self._make()
        return self._executable

    def run(self, operands: Sequence[object], values: Mapping[SizeExpr, int]) -> list[Handle]:
        """The graph's outputs; `values` are those of all symbols in their types."""
        return self.bound(operands, values)(operands)

    def finish(
        self, operands: Sequence[object], values: Mapping[SizeExpr, int], commit: Callable[[Sequence[Handle]], Commit]
    ) -> Sequence[Handle]:
        """As `run`, with the commit that is made of the outputs before they are computed."""
        plan, flat = self._plan(operands, values, commits=True)
        return plan.run(flat, commit)

    def bound(
        self, operands: Sequence[object], values: Mapping[SizeExpr, int]
    ) -> Callable[[Sequence[object]], list[Handle]]:
        """A function of operands of these forms to the graph's outputs."""
        plan, flat = self._plan(operands, values)
        if not self.sizes:
            return plan.run
        run, last = plan.run, flat[-1]
        return lambda operands: run([*operands, last])

    def _plan(
        self, operands: Sequence[object], values: Mapping[SizeExpr, int], commits: bool = False
    ) -> tuple[KernelPlan, list[object]]:
        """The plan for operands of these forms, and all that it takes."""
        executable = self.executable
        flat = list(operands)
        if self.sizes:
            sizes = evaluated(self.sizes, values)
            flat.append(form_of(sizes, int64, strides=(0,) * len(sizes)))
        key = (commits, *[form_of_operand(operand) for operand in flat])
        plan = self._plans.get(key)
        if plan is None:
            outputs = [
                form_of(evaluated(type_.shape, values), type_.dtype, type_.device, evaluated(type_.strides, values))
                for type_ in executable.output_types
            ]
            words = [form.words for form in (*key[1:], *outputs)]
            if len(self._plans) >= _MOST_PLANS:
                self._plans.clear()
            plan = self._plans[key] = KernelPlan(executable, flat, words, outputs, commits=commits)
        return plan, flat


def evaluated(sizes: Sequence[Size], values: Mapping[SizeExpr, int]) -> tuple[int, ...]:
    """Sizes as integers."""
    return tuple([evaluate(size, values) for size in sizes])
