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
from rushlight.capture.source import DYNAMIC, ArgumentSource, NumberSource, TensorSource
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
from rushlight.sym import Guard as SizeGuard
from rushlight.sym import RuntimeAssert, Scope, SizeExpr, as_written, evaluate, is_symbol
from rushlight.sym.report import GraphShapes, shapes_of

if TYPE_CHECKING:
    from rushlight.build import Executable

MISS = object()
"""What a call of an entry gives where a guard does not hold."""
_MOST_PLANS = 1 << 14  # of one entry


@frozen
class Misfit:
    """Why a program whose guards hold does not fit a call: the `kind` is "tensor" or "size".

    `reason` goes on after `name`, which is an argument's in a generated function: `a0`, and ` has 3 dims, not 2`.
    `passed` counts the kinds of questions that the call has passed before.
    """

    kind: str
    name: str
    reason: str
    passed: int


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
        guards: Sequence[SizeGuard],
        asserts: Sequence[RuntimeAssert],
        numbers: Sequence[SizeExpr],
        commits: bool,
    ) -> None:
        self.executable = executable
        self.sources = sources
        self.guards = guards
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
        values: dict[SizeExpr, int] = {}
        if self.misfit(key, values) is not None:
            return None
        count = len(self.dynamic)
        given = dict(zip(self.dynamic, key[:count], strict=True))
        shapes: list[tuple[int, ...]] = []
        words: list[tuple[int, ...]] = []
        for position, source in enumerate(self.sources):
            if position in given:
                form = given[position]
                require(form.device.type != "meta", "V003", "compile: an argument has no data", argument=form.type)
            elif isinstance(source, TensorSource):
                form = source.tensor.form
            else:
                assert isinstance(source, NumberSource)
                form = form_of((), source.dtype, weak=True)
            shapes.append(tuple(form.shape))
            words.append(form.words)
        if len(self.plans) >= _MOST_PLANS:
            self.plans.clear()
        if isinstance(self.executable, Segmented):
            plan: RunPlan | Ran = Ran([], values)
        else:
            check_asserts(self.asserts, values)
            plan = self._make(self.executable, shapes, words, values, key[:count])
        self.plans[key] = plan
        return plan

    def misfit(self, key: tuple[Any, ...], values: dict[SizeExpr, int]) -> Misfit | None:
        """Why the program does not fit dynamic inputs of these forms, and these integers; None if it does.

        Writes down what the symbols are then.
        """
        count = len(self.dynamic)
        values.update(zip(self.numbers, key[count:], strict=True))
        for position, form in zip(self.dynamic, key[:count], strict=True):
            source = self.sources[position]
            name = f"a{source.position}" if isinstance(source, ArgumentSource) else "a tensor that it replaces"
            misfit = misfit_of(form, self.executable.input_types[position], values, name)
            if misfit is not None:
                return misfit
        for guard in self.guards:
            if not guard.condition.holds(values):
                asked = "" if guard.frame is None else f", asked by {str(guard.frame).partition(':  ')[0]}"
                return Misfit("size", as_written(guard.condition.negate()), f" now{asked}", 5)
        for symbol in self.bounded:
            if not symbol.facts.allow(values[symbol]):
                return Misfit("size", symbol.facts.name, f" is {values[symbol]}, which is not in its range", 6)
        return None

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


def misfit_of(form: TensorMeta, type_: TensorType, values: dict[SizeExpr, int], name: str) -> Misfit | None:
    """Why a tensor may not stand for a parameter; binds the parameter's symbols to its sizes and strides."""
    if form.dtype is not type_.dtype:
        return Misfit("tensor", name, f" is {form.dtype.name}, not {type_.dtype.name}", 0)
    if len(form.shape) != len(type_.shape):
        return Misfit("tensor", name, f" has {len(form.shape)} dims, not {len(type_.shape)}", 1)
    if form.device != type_.device:
        return Misfit("tensor", name, f" is on {form.device}, not on {type_.device}", 2)
    for dim, (expected, size) in enumerate(zip(type_.shape, form.shape, strict=True)):
        if isinstance(expected, SizeExpr) and is_symbol(expected):
            if values.setdefault(expected, size) != size:
                return Misfit(
                    "size", name, f".shape[{dim}] is {size}, and a size that it was equal to {values[expected]}", 3
                )
        elif isinstance(expected, int) and expected != size:
            return Misfit("size", name, f".shape[{dim}] is {size}, not {expected}", 3)
    for dim, (expected, stride, size) in enumerate(zip(type_.strides, form.strides, form.shape, strict=True)):
        if isinstance(expected, SizeExpr) and is_symbol(expected) and expected not in values:
            values[expected] = stride
        elif size > 1 and form.numel and (wanted := evaluate(expected, values)) != stride:
            return Misfit("tensor", name, f".stride({dim}) is {stride}, not {wanted}", 4)
    return None


@dataclass(slots=True)
class Entry:
    """One compiled trace of a function. `call(args, kwargs)` gives the result, or MISS when a guard does not hold.

    `unpack` takes arguments apart, and `key` makes what a plan is found by. `misfit` says why there is none.
    `scope` has the symbols of its sizes, while anything needs them. `observed` is what it took its arguments to be.
    An entry that was `found` on disk has the report of its sizes from there.
    """

    call: Callable[[tuple[Any, ...], dict[str, Any]], Any]
    unpack: tuple[str, ...]
    key: tuple[str, ...]
    misfit: Callable[[tuple[Any, ...], dict[SizeExpr, int]], Misfit | None]
    first: tuple[Guard, ...]
    state: StateGuards
    text: str
    executables: tuple[Executable, ...]
    written: tuple[Handle, ...]
    scope: weakref.ref[Scope]
    observed: Observed | None
    found: GraphShapes | None = None

    def shapes(self) -> GraphShapes:
        """What the trace knew and asked of sizes."""
        return shapes_of(self.scope()) if self.found is None else self.found

    @property
    def guards(self) -> tuple[Guard, ...]:
        """All that the entry takes for granted, in the order in which it asks."""
        space = self.call.__globals__  # pyright: ignore[reportFunctionMemberAccess] - a function
        return (*self.first, *self.state.guards(space))
