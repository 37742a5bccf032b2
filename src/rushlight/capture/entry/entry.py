"""An entry: a compiled program behind one generated function that checks guards, runs, and applies effects.

The function is text made once per trace, so that a later call is straight-line Python: a few identity checks, one
native call.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rushlight.capture.guard import Guard
from rushlight.capture.segmented import Ran, Segmented, check_asserts
from rushlight.capture.source import DYNAMIC, NumberSource, TensorSource
from rushlight.capture.state.snapshot import StateGuards
from rushlight.eager.dispatch import Key, bit
from rushlight.eager.execution.plan import FASTER, Launch
from rushlight.eager.handle import Handle
from rushlight.eager.tensor_meta import TensorMeta, form_of
from rushlight.ir.dtype import Kind
from rushlight.ir.spec.propose import Observed
from rushlight.ir.type import TensorType, symbols_in
from rushlight.runtime.descriptor import ArgumentBlock, ArgumentBlocks
from rushlight.support.errors import require
from rushlight.support.frozen import frozen
from rushlight.sym import Condition, RuntimeAssert, Scope, SizeExpr, evaluate, is_symbol

if TYPE_CHECKING:
    from rushlight.build import Executable

MISS = object()
"""What a call of an entry gives where a guard does not hold."""
_MOST_PLANS = 1 << 14  # of one entry


@frozen
class RunPlan:
    """What one combination of input forms fixes: sheets of descriptors, and the outputs' sizes in bytes and forms.

    `run` gives the outputs for the dynamic inputs by native code, if there is some, or none where it leaves a call to
    Python.
    """

    run: Callable[[tuple[Any, ...]], tuple[Any, ...]] | None
    free: list[ArgumentBlock]
    fresh: Callable[[], ArgumentBlock]
    launch: Callable[..., None]
    nbytes: tuple[int, ...]
    forms: tuple[TensorMeta, ...]
    values: dict[SizeExpr, int]


class Planner:
    """Makes RunPlans: checks that forms fit the traced types and conditions, and what the program asserts of sizes."""

    def __init__(
        self,
        executable: Executable | Segmented,
        sources: Sequence[Any],
        conditions: Sequence[Condition],
        asserts: Sequence[RuntimeAssert],
        numbers: Sequence[SizeExpr],
        commits: bool,
    ) -> None:
        self.executable = executable
        self.sources = sources
        self.conditions = conditions
        self.asserts = asserts
        self.numbers = numbers
        self.commits = commits
        self.bounded = [symbol for symbol in symbols_in(executable.input_types) if symbol.facts.is_bounded]
        self.plans: dict[tuple[Any, ...], RunPlan | Ran] = {}
        self.dynamic = [position for position, source in enumerate(sources) if isinstance(source, DYNAMIC)]

    def plan(self, key: tuple[Any, ...]) -> RunPlan | Ran | None:
        """The plan for dynamic inputs of these forms, and these integers. None if the program does not fit them.

        Errors: R002 where it was made for them, and an assert does not hold. A segmented program checks its own.
        """
        count = len(self.dynamic)
        given = dict(zip(self.dynamic, key[:count], strict=True))
        values: dict[SizeExpr, int] = dict(zip(self.numbers, key[count:], strict=True))
        shapes: list[tuple[int, ...]] = []
        words: list[tuple[int, ...]] = []
        for position, (source, type_) in enumerate(zip(self.sources, self.executable.input_types, strict=True)):
            if position in given:
                form = given[position]
                if not fits(form, type_, values):
                    return None
                require(form.device.type != "meta", "V003", "compile: an argument has no data", argument=form.type)
            elif isinstance(source, TensorSource):
                form = source.tensor.form
            else:
                assert isinstance(source, NumberSource)
                form = form_of((), source.dtype, weak=True)
            shapes.append(tuple(form.shape))
            words.append(form.words)
        if not all(condition.holds(values) for condition in self.conditions):
            return None
        if not all(symbol.facts.allow(values[symbol]) for symbol in self.bounded):
            return None
        if len(self.plans) >= _MOST_PLANS:
            self.plans.clear()
        if isinstance(self.executable, Segmented):
            plan: RunPlan | Ran = Ran([], values)
        else:
            check_asserts(self.asserts, values)
            plan = self._make(self.executable, shapes, words, values, key[:count])
        self.plans[key] = plan
        return plan

    def _make(
        self,
        executable: Executable,
        shapes: list[tuple[int, ...]],
        words: list[tuple[int, ...]],
        values: dict[SizeExpr, int],
        given: Sequence[TensorMeta],
    ) -> RunPlan:
        forms: list[TensorMeta] = []
        layouts = executable.infer_outputs(shapes)
        for type_, (shape, strides) in zip(executable.output_types, layouts, strict=True):
            forms.append(form_of(shape, type_.dtype, type_.device, strides))
        sheets = ArgumentBlocks([*words, *[form.words for form in forms]], numbers_among(self.sources))
        for position, source in enumerate(self.sources):
            if isinstance(source, TensorSource):
                sheets.fix(position, source.tensor.address())
        work = executable.work_of([*shapes, *[shape for shape, _ in layouts]])
        launch = executable.committer(work) if self.commits else executable.launcher(work)
        nbytes = tuple([form.nbytes for form in forms])
        run = self._native_run(executable, work, sheets, forms, given)
        return RunPlan(run, sheets.free, sheets.fresh, launch, nbytes, tuple(forms), values)

    def _native_run(
        self,
        executable: Executable,
        work: int,
        sheets: ArgumentBlocks,
        outputs: Sequence[TensorMeta],
        given: Sequence[TensorMeta],
    ) -> Callable[[tuple[Any, ...]], tuple[Any, ...]] | None:
        """Native code for a short call of tensors that commits nothing, if there is some."""
        entry = None if self.commits or numbers_among(self.sources) else executable.short_entry(work)
        if entry is None or not outputs or any(form.keys != bit(Key.CPU) for form in (*given, *outputs)):
            return _left_to_python
        starts = [
            sheets.starts[position] for position in (*self.dynamic, *range(len(self.sources), len(sheets.starts)))
        ]
        launch = Launch(executable, entry, False, sheets, starts, tuple(outputs), None)
        run = FASTER[0](launch, given, _left_to_python, True)
        return None if run is _left_to_python else run


def _left_to_python(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    return ()


def numbers_among(sources: Sequence[object]) -> list[tuple[int, type]]:
    """Which inputs are numbers, by position, and of which class."""
    classes: dict[Kind, type] = {Kind.FLOAT: float, Kind.INT: int}
    return [(at, classes[source.dtype.kind]) for at, source in enumerate(sources) if isinstance(source, NumberSource)]


def fits(form: TensorMeta, type_: TensorType, values: dict[SizeExpr, int]) -> bool:
    """Whether a tensor may stand for a parameter; binds the parameter's symbols to its sizes and strides."""
    if form.dtype is not type_.dtype or len(form.shape) != len(type_.shape) or form.device != type_.device:
        return False
    for expected, size in zip(type_.shape, form.shape, strict=True):
        if isinstance(expected, SizeExpr) and is_symbol(expected):
            if values.setdefault(expected, size) != size:
                return False
        elif isinstance(expected, int) and expected != size:
            return False
    for expected, stride, size in zip(type_.strides, form.strides, form.shape, strict=True):
        if isinstance(expected, SizeExpr) and is_symbol(expected) and expected not in values:
            values[expected] = stride
        elif size > 1 and form.numel and evaluate(expected, values) != stride:
            return False
    return True


@dataclass(slots=True)
class Entry:
    """One compiled trace of a function. `call(args, kwargs)` gives the result, or MISS when a guard does not hold.

    `scope` has the symbols of its sizes, while anything needs them. `observed` is what it took its arguments to be.
    """

    call: Callable[[tuple[Any, ...], dict[str, Any]], Any]
    unpack: tuple[str, ...]
    first: tuple[Guard, ...]
    state: StateGuards
    text: str
    executables: tuple[Executable, ...]
    written: tuple[Handle, ...]
    scope: weakref.ref[Scope]
    observed: Observed | None

    @property
    def guards(self) -> tuple[Guard, ...]:
        """All that the entry takes for granted, in the order in which it asks."""
        space = self.call.__globals__  # pyright: ignore[reportFunctionMemberAccess] - a function
        return (*self.first, *self.state.guards(space))
