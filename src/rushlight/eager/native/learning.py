"""Teaches native code how calls run, and makes known the threads that make them."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from rushlight import runtime
from rushlight.autodiff.backward import SINK
from rushlight.eager.autograd.accumulate import AccumulateGrad, gradient_form
from rushlight.eager.autograd.driver import WALK, Pass
from rushlight.eager.autograd.node import SEQUENCE, Node
from rushlight.eager.autograd.operation import OperatorNode, needed_of, runs_alone
from rushlight.eager.autograd.record import BELOW, below_autograd
from rushlight.eager.autograd.saved import SavedTensor
from rushlight.eager.dispatch import STATE, Key, bit, dispatch
from rushlight.eager.execution.kernels import ON_FIRST_PLAN
from rushlight.eager.execution.operands import attribute_key, flatten, form_key
from rushlight.eager.execution.plan import FASTER, Launch
from rushlight.eager.execution.tables import block_key
from rushlight.eager.handle import Gradient, Version, View, adopted
from rushlight.eager.native import call_text, layout, plan_text
from rushlight.eager.native.describe import (
    Made,
    describe_call,
    describe_launch,
    describe_step,
    key_of,
    spread,
    word_of,
)
from rushlight.eager.native.records import Record, Table
from rushlight.eager.tensor import Parameter
from rushlight.eager.tensor_meta import TensorMeta
from rushlight.ir.dtype import DType
from rushlight.ir.type import CPU
from rushlight.ops.record import GENERATION
from rushlight.runtime import allocator, context, llvm
from rushlight.support import provenance, settings
from rushlight.support.errors import RushlightError

_MOST_ONCE = 1 << 12  # calls with attributes that were made once
_TP_NEW = 65  # Py_tp_new of the stable ABI


class NativeCalls:
    """The loaded functions, and the table that they look into."""

    def __init__(self) -> None:
        llvm.bind_python_symbols(*call_text.PYTHON_SYMBOLS)
        runtime.native.functions()  # which binds what the text calls
        text = call_text.call_text(context.SCOPES)
        self.module = runtime.native.load_cached("eager", text, llvm.baseline_target())
        runtime.native.keep_forever(self.module)
        self.table = Table()
        self._once: set[Hashable] = set()
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
            "tuple_class": tuple,
            "text_class": str,
            "dtype_class": DType,
            "cpu": CPU,
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
            "paths_name": sys.intern("paths"),
            "prepare_step": Pass.prepare,
            "run_prepared": Pass.run_prepared,
            "learn_step": self.learn_step,
            "learn_sink": self.learn_sink,
        }

    def learn(self, op: Any, operands: tuple[Any, ...], attrs: Mapping[str, object], keys: int = 0) -> Any:
        """Makes a call in Python, and the table tells native code about the next one."""
        flat = spread(operands)
        needed = needed_of(flat) if STATE.grad and not STATE.saving else tuple([False for _ in flat])
        return self._learned(op, operands, attrs, needed, lambda: dispatch(op, operands, attrs, keys))

    def learn_below(self, active: int, op: Any, operands: tuple[Any, ...], attrs: Mapping[str, object]) -> Any:
        """As `learn`, for the part of a call that is below autograd."""
        needed = tuple([False for _ in spread(operands)])
        return self._learned(op, operands, attrs, needed, lambda: below_autograd(active, op, operands, attrs))

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
        if generation == GENERATION[0] and (not attrs or self._is_repeated(op, operands, attrs)):
            made = describe_call(Made(op, operands, attrs, needed, result))
            if made is not None:
                self.table.add(made)
        return result

    def _is_repeated(self, op: object, operands: tuple[object, ...], attrs: Mapping[str, object]) -> bool:
        """Whether such a call was made before: attributes may be others each time, as the index in a loop."""
        key = (op, attribute_key(attrs), *[form_key(operand) for operand in operands])
        if key in self._once:
            self._once.discard(key)
            return True
        if len(self._once) >= _MOST_ONCE:
            self._once.clear()
        self._once.add(key)
        return False

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
        if len(gradients) > layout.MOST_OPERANDS:
            return
        forms = [gradient.form for gradient in gradients if gradient is not None]
        key = key_of(node.recipe, 0, len(gradients), [word_of(gradient) for gradient in gradients])
        made = Record(key, [node.recipe, block_key(), *forms])
        describe_step(made, node, node.plan(values, flat), flat)
        self.table.add(made)

    def learn_sink(self, one: Pass, sink: AccumulateGrad, gradients: list[Any]) -> tuple[Any, ...]:
        """As `learn_step`, for a leaf that gets its first gradient."""
        self._renew()
        leaf, new = sink.variable.form, gradients[0].form
        made = Record([2, layout.OPERANDS + 2, 0, 0, 0, id(leaf), id(new)], [leaf, new])
        made.words[layout.PASSES] = gradient_form(leaf, new) is new
        self.table.add(made)
        return one.take(sink, gradients)

    def faster(
        self, launch: Launch, operands: Sequence[object], run: Callable[..., Any], by_forms: bool = False
    ) -> Callable[..., Any]:
        """A plan's native function, or the Python function itself if native code cannot do what it does."""
        made = Record([len(operands)], [])
        if len(operands) > layout.MOST_ARGUMENTS or not describe_launch(
            made, launch, operands, False, by_forms=by_forms
        ):
            return run
        address = self.module.address(plan_text.NAME)
        return runtime.native.python_function(plan_text.NAME, address, (made.address, run, made))


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


def is_chosen() -> bool:
    """Whether a scope says how calls are made."""
    return len(_wanted) > 1


def python_calls() -> AbstractContextManager[None]:
    """A scope in which calls of all threads go through Python, as with the setting `eager_calls`."""
    return _enabled(0)


def native_calls() -> AbstractContextManager[None]:
    """A scope in which calls are native again where they are loaded."""
    return _enabled(1)


ON_FIRST_PLAN.append(_install)
