"""Teaches native code how calls run: records of plans, and the threads that make them."""

from __future__ import annotations

import ctypes
import struct
import sys
from array import array
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from rushlight import runtime
from rushlight.autodiff.backward import SINK
from rushlight.eager.autograd.accumulate import AccumulateGrad, gradient_form
from rushlight.eager.autograd.derive import DerivativePlan
from rushlight.eager.autograd.driver import WALK, Pass
from rushlight.eager.autograd.node import SEQUENCE, Node
from rushlight.eager.autograd.operation import OperatorNode, Recipe, needed_of, runs_alone
from rushlight.eager.autograd.record import BELOW, Recorded, below_autograd, record, recorded
from rushlight.eager.autograd.saved import SavedTensor
from rushlight.eager.dispatch import STATE, Key, bit, dispatch, table_of
from rushlight.eager.execution.kernels import ON_FIRST_PLAN, planned, run_on_cpu
from rushlight.eager.execution.operands import NUMBER_FORMS, flatten
from rushlight.eager.execution.plan import FASTER, Launch
from rushlight.eager.execution.tables import block_key
from rushlight.eager.handle import AUTOGRAD, Gradient, Handle, Version, View, adopted
from rushlight.eager.native import call_text, layout
from rushlight.eager.tensor import Parameter
from rushlight.eager.tensor_meta import TensorMeta
from rushlight.ir.dtype import DType
from rushlight.ops.record import GENERATION
from rushlight.runtime import allocator, context, llvm
from rushlight.runtime.descriptor import ArgumentBlock
from rushlight.support import provenance, settings
from rushlight.support.errors import RushlightError

_MOST_RECORDS = layout.TABLE_WORDS // 4
_INT64 = (-(1 << 63), (1 << 63) - 1)
_NUMBERS = (float, int, bool)
_TP_NEW = 65  # Py_tp_new of the stable ABI


class Record:
    """The words of one learned call, and all that they refer to."""

    __slots__ = ("_kept", "address", "key", "words")

    def __init__(self, key: Sequence[int], kept: Sequence[object]) -> None:
        self.words = array("q", [0] * layout.RECORD_WORDS)
        self.words[: layout.KEY_WORDS] = array("q", key)
        self.words[layout.OWNER] = id(self)
        self.address = self.words.buffer_info()[0]
        self.key = tuple(key)
        self._kept = tuple(kept)

    def set_launch(self, launch: Launch, block: ArgumentBlock, sizes: Sequence[int], keys: Sequence[int]) -> None:
        """Says how the call runs."""
        words = self.words
        words[layout.ENTRY] = launch.entry
        words[layout.BARE] = launch.bare
        words[layout.RESULTS] = len(launch.outputs)
        words[layout.POINTER] = block.pointer
        words[layout.WORDS] = block.words.buffer_info()[0]
        words[layout.REALS] = block.reals.buffer_info()[0]
        first = len(launch.starts) - len(launch.outputs)
        for number, form in enumerate(launch.outputs):
            at = layout.OUTPUTS + layout.OUTPUT_WORDS * number
            words[at + layout.FORM] = id(form)
            words[at + layout.KEYS] = id(keys[number])
            words[at + layout.BYTES] = id(sizes[number])
            words[at + layout.CLASS] = allocator.lent_class(sizes[number])
            words[at + layout.ADDRESS_AT] = launch.starts[first + number]
        self._kept = (*self._kept, launch, block, *sizes, *keys)

    def set_tape(self, taped: Recorded, operands: Sequence[object], sources: Sequence[tuple[int, int, object]]) -> None:
        """Says what the call writes on the tape; `sources` are kind, number and object of all that it saves."""
        words = self.words
        words[layout.RECIPE] = id(taped.recipe)
        words[layout.EDGE_COUNT] = len([operand for operand in operands if operand is not None])
        words[layout.ATTACHED] = sum([1 << output for output in taped.outputs])
        words[layout.SAVED_COUNT] = len(sources)
        for number, (source, at, kept) in enumerate(sources):
            start = layout.SAVED + layout.SAVED_WORDS * number
            words[start : start + layout.SAVED_WORDS] = array("q", [source, at, id(kept)])
        self._kept = (*self._kept, taped.recipe, *[kept for _, _, kept in sources])

    def set_argument(
        self, number: int, kind: int, at: int = 0, scale: int = 0, bounds: tuple[int, int] = (0, 0), expected: int = 0
    ) -> None:
        """Says what fills operand `number` in; `expected` is its word, 0 for one that is not filled in."""
        start = layout.ARGUMENTS + layout.ARGUMENT_WORDS * number
        self.words[start : start + layout.ARGUMENT_WORDS] = array("q", [kind, at, scale, *bounds, expected])

    def set_gradients(self, sources: Sequence[int], holds_tensors: bool, kept: Sequence[object]) -> None:
        """Says what a step gives to each of its edges, and whether it saves tensors."""
        self.words[layout.GRADIENT_COUNT] = len(sources)
        self.words[layout.HOLDS_TENSORS] = holds_tensors
        self.words[layout.GRADIENTS : layout.GRADIENTS + len(sources)] = array("q", sources)
        self._kept = (*self._kept, *kept)


class Table:
    """The records by signature, in an array that native code reads."""

    def __init__(self) -> None:
        self.words = array("q", [0] * layout.TABLE_WORDS)
        self.address = self.words.buffer_info()[0]
        self._records: list[Record] = []

    def add(self, new: Record) -> None:
        """Makes a record known."""
        if len(self._records) >= _MOST_RECORDS:
            self.clear()
        at = layout.place(new.key)
        while self.words[at]:
            at = (at + 1) % layout.TABLE_WORDS
        self._records.append(new)
        self.words[at] = new.address

    def clear(self) -> None:
        """Forgets all records."""
        self.words[:] = array("q", [0] * layout.TABLE_WORDS)
        self._records = []


class NativeCalls:
    """The loaded functions, and the table that they look into."""

    def __init__(self) -> None:
        llvm.bind_python_symbols(*call_text.PYTHON_SYMBOLS)
        runtime.native.functions()  # which binds what the text calls
        text = call_text.call_text(context.SCOPES)
        self.module = runtime.native.load_cached("eager", text, llvm.baseline_target())
        runtime.native.keep_forever(self.module)
        self.table = Table()
        self.dispatch, self.below, self.join_thread, self.walk = [
            runtime.native.python_function(name, self.module.address(name), self.module) for name in call_text.NAMES
        ]
        self._generation = -1
        self._objects = self._referred_to()
        for name in call_text.OBJECTS:
            self.set_word(name, id(self._objects[name]))
        for owner, slots in call_text.OFFSETS.items():
            for slot in slots:
                self.set_word(f"{owner}_{slot}", layout.slot_offset(_classes_by_name()[owner], slot))
        get_slot: Any = ctypes.pythonapi.PyType_GetSlot
        get_slot.argtypes, get_slot.restype = (ctypes.py_object, ctypes.c_int), ctypes.c_void_p
        self.set_word("new_object", get_slot(object, _TP_NEW))
        self.set_word("generation_at", GENERATION.buffer_info()[0])
        self.set_word("blocks_at", settings.BLOCKS.buffer_info()[0])
        self.set_word("table", self.table.address)
        self.set_word("cpu_key", bit(Key.CPU))
        self.set_word("autograd_key", bit(Key.AUTOGRAD))
        self.set_word("standing_at", provenance.STANDING.buffer_info()[0])

    def set_word(self, name: str, value: int) -> None:
        """Sets a variable of the native code."""
        ctypes.c_int64.from_address(self.module.address(name)).value = value

    def _referred_to(self) -> dict[str, object]:
        classes = {f"{name}_class": cls for name, cls in _classes_by_name().items()}
        return {
            **classes,
            "parameter_class": Parameter,
            "float_class": float,
            "int_class": int,
            "bool_class": bool,
            "none": None,
            "false": False,
            "zero": 0,
            "true": True,
            "no_arguments": (),
            "thread_key": sys.intern("rushlight.context"),
            "included_name": sys.intern("included"),
            "excluded_name": sys.intern("excluded"),
            "grad_name": sys.intern("grad"),
            "forward_name": sys.intern("forward"),
            "saving_name": sys.intern("saving"),
            "key_of_block": settings.KEY_OF_BLOCK,
            "filename_name": sys.intern("co_filename"),
            "python_dispatch": dispatch,
            "learn": self.learn,
            "python_below": below_autograd,
            "learn_below": self.learn_below,
            "lend": _lend,
            "sequence": SEQUENCE,
            "sink_sequence": SINK,
            "user_frame": provenance.user_frame,
            "plain_files": provenance.PLAIN_FILES,
            "node_class": Node,
            "folds_name": sys.intern("folds"),
            "merges_name": sys.intern("merges"),
            "rest_name": sys.intern("rest"),
            "learn_step": self.learn_step,
            "learn_sink": self.learn_sink,
        }

    def learn(self, op: Any, operands: tuple[Any, ...], attrs: Mapping[str, object], keys: int = 0) -> Any:
        """Makes a call in Python, and the table tells native code about the next one."""
        needed = needed_of(operands) if STATE.grad and not STATE.saving else ()
        return self._learned(op, operands, attrs, needed, lambda: dispatch(op, operands, attrs, keys))

    def learn_below(self, active: int, op: Any, operands: tuple[Any, ...], attrs: Mapping[str, object]) -> Any:
        """As `learn`, for the part of a call that is below autograd."""
        return self._learned(op, operands, attrs, (), lambda: below_autograd(active, op, operands, attrs))

    def _learned(
        self,
        op: Any,
        operands: tuple[Any, ...],
        attrs: Mapping[str, object],
        needed: tuple[bool, ...],
        call: Callable[[], Any],
    ) -> Any:
        here = context.current()
        if not here.words[context.SCOPES]:
            self.join_thread(here.address, vars(STATE))
            return call()
        generation = self._renew()
        result = call()
        if generation == GENERATION[0] and not attrs:
            self._add(op, operands, needed, result)
        return result

    def _renew(self) -> int:
        """Clears the table if something was registered; returns the generation."""
        generation = GENERATION[0]
        if self._generation != generation:
            self.table.clear()
            self._generation = generation
            self.set_word("generation", generation)
        return generation

    def learn_step(self, one: Pass, node: OperatorNode, gradients: list[Any]) -> tuple[Any, ...]:
        """Runs a step of a backward pass in Python, and the table tells native code about the next one."""
        self._renew()
        if node.saves_plainly:
            self._add_step(node, gradients)
        return one.take(node, gradients)

    def _add_step(self, node: OperatorNode, gradients: list[Any]) -> None:
        try:
            values = node.values(gradients)
        except RushlightError:  # which the step itself is to raise
            return
        flat = flatten(values)
        if not runs_alone(flat):
            return
        words = [_word_of(gradient) for gradient in gradients]
        words += [0] * (layout.MOST_OPERANDS - len(words))
        forms = [gradient.form for gradient in gradients if gradient is not None]
        block = block_key()
        key = [len(gradients), id(node.recipe), 0, 0 if block is None else id(block), *words]
        made = Record(key, [node.recipe, block, *forms])
        _describe_step(made, node, node.plan(values, flat), flat)
        self.table.add(made)

    def learn_sink(self, one: Pass, sink: AccumulateGrad, gradients: list[Any]) -> tuple[Any, ...]:
        """As `learn_step`, for a leaf that gets its first gradient."""
        self._renew()
        leaf, new = sink.variable.form, gradients[0].form
        rest = [0] * (layout.MOST_OPERANDS - 2)
        made = Record([2, 0, 0, 0, id(leaf), id(new), *rest], [leaf, new])
        made.words[layout.PASSES] = gradient_form(leaf, new) is new
        self.table.add(made)
        return one.take(sink, gradients)

    def faster(
        self, launch: Launch, operands: Sequence[object], run: Callable[..., Any], by_forms: bool = False
    ) -> Callable[..., Any]:
        """A plan's native function, or the Python function itself if native code cannot do what it does."""
        made = Record([len(operands), *[0] * (layout.KEY_WORDS - 1)], [])
        if len(operands) > layout.MOST_ARGUMENTS or not _describe(made, launch, operands, False, by_forms=by_forms):
            return run
        address = self.module.address(call_text.RUN_PLAN)
        return runtime.native.python_function(call_text.RUN_PLAN, address, (made.address, run, made))

    def _add(self, op: Any, operands: tuple[Any, ...], needed: tuple[bool, ...], result: Any) -> None:
        words = [_word_of(operand) for operand in operands]
        if not 1 <= len(words) <= layout.MOST_OPERANDS or 0 in words:
            return
        words += [0] * (layout.MOST_OPERANDS - len(words))
        forms = [operand.form for operand in operands if isinstance(operand, Handle)]
        bits = sum([1 << at for at, wanted in enumerate(needed) if wanted])
        block = block_key()
        made = Record([len(operands), id(op), bits, 0 if block is None else id(block), *words], [op, block, *forms])
        launch = planned(op, operands)
        entries = table_of(op)
        kernel = entries.kernels[Key.CPU]
        if launch is not None and entries.prepare is None and kernel is not None and kernel.function is run_on_cpu:
            recorder = entries.kernels[Key.AUTOGRAD]
            passes = recorder is None or recorder.function is record
            if not bits:
                _describe(made, launch, operands, passes)
            elif recorder is not None and passes:
                _describe_recorded(made, launch, op, operands, needed, result)
        self.table.add(made)


def _describe_recorded(
    made: Record, launch: Launch, op: Any, operands: tuple[Any, ...], needed: tuple[bool, ...], result: Any
) -> None:
    """Fills the record of a recorded call in, if native code can write its tape."""
    there = tuple([wanted for operand, wanted in zip(operands, needed, strict=True) if operand is not None])
    taped = recorded(op, operands, there, result if isinstance(result, tuple) else (result,))
    if taped is None:
        return
    if taped.recipe is None:
        _describe(made, launch, operands, passes=True)
        return
    sources = _sources(taped.recipe, operands)
    if sources is not None and _describe(made, launch, operands, passes=True, attached=taped.outputs):
        made.set_tape(taped, operands, sources)


def _sources(recipe: Recipe, operands: tuple[object, ...]) -> list[tuple[int, int, object]] | None:
    """What the calls of a recipe save: kind, number and object; None if native code cannot."""
    sources: list[tuple[int, int, object]] = []
    for position, (is_result, at, used) in enumerate(recipe.sources):
        if position not in recipe.differing:
            sources.append((layout.FORMS, 0, recipe.saved[position]))
        elif isinstance(used, tuple):
            return None
        elif is_result:
            sources.append((layout.RESULT_TENSOR, at, None))
        else:
            kind = layout.OPERAND_TENSOR if isinstance(operands[at], Handle) else layout.OPERAND_NUMBER
            sources.append((kind, at, None))
    return sources if len(sources) <= layout.MOST_SAVED else None


def _describe_step(made: Record, node: OperatorNode, plan: DerivativePlan, flat: Sequence[Any]) -> None:
    """Fills the record of a step in, if native code can run it."""
    steps = [source[1] for source in plan.sources if isinstance(source, tuple)]
    most = min(layout.MOST_ARGUMENTS, len(node.edges))
    if any(steps) or plan.is_replayed or len(plan.sources) > most or len(flat) > layout.MOST_ARGUMENTS:
        return
    if plan.kernel is not None:
        if plan.kernel.launch is None or not _describe(made, plan.kernel.launch, flat, passes=True):
            return
    else:
        made.words[layout.FILLED] = len(flat)
        for number, value in enumerate(flat):
            made.set_argument(number, layout.ABSENT, expected=_word_of(value))
    sources: list[int] = []
    for source in plan.sources:
        sources.append(0 if source is None else -1 - source[0] if isinstance(source, tuple) else 1 + source)
    made.set_gradients(sources, node.saves_tensors, [plan])


def _describe(
    made: Record,
    launch: Launch,
    operands: Sequence[Any],
    passes: bool,
    attached: Sequence[int] = (),
    by_forms: bool = False,
) -> bool:
    """Fills a record in; whether native code can run the call. Results that are `attached` get a history.

    A form among the operands stands for a tensor if they are given `by_forms`, else for sizes that are known.
    """
    sizes = [form.nbytes for form in launch.outputs]
    if len(sizes) > layout.MOST_RESULTS or any(size > allocator.LENT_BYTES for size in sizes):
        return False
    slots = {slot.position: slot for slot in launch.sheets.slots}
    position = 0
    made.words[layout.FILLED] = len(operands)
    for number, operand in enumerate(operands):
        if operand is None:
            made.set_argument(number, layout.ABSENT)
            continue
        if operand.__class__ is TensorMeta and not by_forms:
            made.set_argument(number, layout.ABSENT)
        elif by_forms or isinstance(operand, Handle):
            at, form = launch.starts[position], operand if by_forms else operand.form
            made.set_argument(number, layout.TENSOR, at, form.dtype.itemsize, expected=id(form))
        else:
            bounds = _bounds(operand.__class__, launch.fitting) if operand.__class__ in _NUMBERS else None
            if bounds is None:
                return False
            kind = layout.REAL if operand.__class__ is float else layout.INTEGER
            made.set_argument(number, kind, slots[position].at, 0, bounds, id(operand.__class__))
        position += 1
    made.words[layout.PASSES] = passes
    keys = [form.keys | AUTOGRAD if at in attached else form.keys for at, form in enumerate(launch.outputs)]
    made.set_launch(launch, launch.sheets.fresh(), sizes, keys)
    return True


def _bounds(class_: type, fitting: DType | None) -> tuple[int, int] | None:
    """The least and greatest number that a call takes as it is, as words; None if Python has to look."""
    bounds = None if fitting is None or class_ is bool else fitting.bounds
    if class_ is float:
        if bounds is not None and fitting is not None and fitting.is_integer:
            return None
        low, high = (float("-inf"), float("inf")) if bounds is None else bounds
        return _bits(float(low)), _bits(float(high))
    if bounds is None or (fitting is not None and not fitting.is_integer):
        return _INT64
    return max(int(bounds[0]), _INT64[0]), min(int(bounds[1]), _INT64[1])


def _bits(value: float) -> int:
    return struct.unpack("q", struct.pack("d", value))[0]


def _word_of(operand: object) -> int:
    """As the native `word_of`."""
    if operand is None:
        return 1
    if isinstance(operand, Handle):
        form: TensorMeta = operand.form
        return id(form)
    return id(operand.__class__) if operand.__class__ in _NUMBERS and operand.__class__ in NUMBER_FORMS else 0


def _lend(nbytes: int) -> None:
    """Has the allocator lend one more block; where there is no memory, Python's call says so."""
    try:
        allocator.CPU.lend(nbytes)
    except RushlightError:
        return


def _classes_by_name() -> dict[str, type]:
    return {
        "tensor": adopted(),
        "storage": allocator.Storage,
        "version": Version,
        "form": TensorMeta,
        "view": View,
        "gradient": Gradient,
        "step": OperatorNode,
        "sink": AccumulateGrad,
        "saved": SavedTensor,
    }


_calls: list[NativeCalls] = []


def _install() -> None:
    """Loads native calls where they are wanted, and puts their `dispatch` where Python's is called from."""
    values = settings.get()
    if values.eager_calls != "native" or values.poison:
        return
    calls = NativeCalls()
    for name, module in list(sys.modules.items()):
        names = vars(module) if name.startswith("rushlight.") and name != __name__ else {}
        if names.get("dispatch") is dispatch:
            names["dispatch"] = calls.dispatch
    BELOW[0] = calls.below
    WALK[0] = calls.walk
    FASTER[0] = calls.faster
    _calls.append(calls)
    calls.set_word("enabled", _wanted[-1])


_wanted = [1]


def loaded() -> list[NativeCalls]:
    """The native calls of this process: none before the first kernel, or if the setting is `python`."""
    return _calls


@contextmanager
def _enabled(wanted: int) -> Generator[None]:
    _wanted.append(wanted)
    try:
        for calls in _calls:
            calls.set_word("enabled", wanted)
        yield
    finally:
        _wanted.pop()
        for calls in _calls:
            calls.set_word("enabled", _wanted[-1])


def python_calls() -> AbstractContextManager[None]:
    """A scope in which calls of all threads go through Python, as with the setting `eager_calls`."""
    return _enabled(0)


def native_calls() -> AbstractContextManager[None]:
    """A scope in which calls are native again where they are loaded."""
    return _enabled(1)


ON_FIRST_PLAN.append(_install)
