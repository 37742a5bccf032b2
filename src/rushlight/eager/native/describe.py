"""What native code does for a call or a step, as far as it can: fills their records in, from plans that Python made."""

from __future__ import annotations

import itertools
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from rushlight.eager.autograd.derive import DerivativePlan, rule_of
from rushlight.eager.autograd.operation import OperatorNode, Recipe
from rushlight.eager.autograd.record import record, recorded
from rushlight.eager.dispatch import Key, table_of
from rushlight.eager.execution.kernels import inner_call, planned, planned_view, planned_views, run_on_cpu
from rushlight.eager.execution.mutate import APART, planned_write, relation
from rushlight.eager.execution.operands import NUMBER_FORMS
from rushlight.eager.execution.plan import Launch
from rushlight.eager.execution.tables import block_key
from rushlight.eager.execution.views import DirectView
from rushlight.eager.handle import AUTOGRAD, Handle
from rushlight.eager.mutation import Mutation
from rushlight.eager.native import layout
from rushlight.eager.native.records import Record
from rushlight.eager.tensor_meta import TensorMeta
from rushlight.ir.dtype import DType
from rushlight.ir.type import CPU
from rushlight.runtime import allocator

_INT64 = (-(1 << 63), (1 << 63) - 1)
_NUMBERS = (float, int, bool)


class Made(NamedTuple):
    """A call that Python has made: `needed` says which operands need gradients, members of lists among them."""

    op: Any
    operands: tuple[Any, ...]
    attrs: Mapping[str, object]
    needed: tuple[bool, ...]
    result: Any

    @property
    def flat(self) -> list[Any]:
        """The operands, with lists opened; those that are absent stay."""
        return spread(self.operands)

    @property
    def results(self) -> tuple[Any, ...]:
        """The results, also where there is one."""
        return self.result if isinstance(self.result, tuple) else (self.result,)


def spread(operands: Sequence[Any]) -> list[Any]:
    """Operands in order, with lists opened; those that are absent stay."""
    flat: list[Any] = []
    for operand in operands:
        flat.extend(operand if operand.__class__ is tuple else (operand,))
    return flat


def key_of(owner: object, bits: int, count: int, words: Sequence[int]) -> list[int]:
    """The key of a call or of a step of a pass, by the words of its operands and attributes."""
    block = block_key()
    return [count, layout.OPERANDS + len(words), id(owner), bits, 0 if block is None else id(block), *words]


def describe_call(call: Made) -> Record | None:
    """The record of a call, empty where Python makes such calls; None where it has no key."""
    words, flat = _words_of_operands(call.operands), call.flat
    attribute_words = words_of_attributes(call.attrs)
    if words is None or attribute_words is None or len(flat) > layout.MOST_OPERANDS:
        return None
    bits = sum([1 << at for at, wanted in enumerate(call.needed) if wanted])
    bits += sum([1 << at for at, operand in enumerate(flat[1:], layout.FIRST_SAME + 1) if operand is flat[0]])
    key = key_of(call.op, bits, len(flat), words + attribute_words)
    if key[layout.LENGTH] > layout.KEY_WORDS or (call.op.__class__ is Mutation and not _lie_apart(flat)):
        return None
    forms = [operand.form for operand in flat if isinstance(operand, Handle)]
    made = Record(key, [call.op, block_key(), *forms, dict(call.attrs)])
    _describe_way(made, call)
    return made


def _describe_way(made: Record, call: Made) -> None:
    """Fills in how a call runs, if native code can run it."""
    op, operands, attrs, wanted = call.op, call.operands, call.attrs, any(call.needed)
    entries = table_of(op)
    kernel, recorder = entries.kernels[Key.CPU], entries.kernels[Key.AUTOGRAD]
    usual = kernel is not None and kernel.function is run_on_cpu
    passes = recorder is None or recorder.function is record
    if entries.prepare is not None or not usual:
        return
    if op.__class__ is Mutation:
        if passes and not wanted:
            _describe_write(made, call)
        return
    inner = inner_call(op, operands, attrs) if passes else None
    launch, views = planned(op, operands, attrs), _direct_views(call) if passes else ()
    if inner is not None:
        if not wanted or rule_of(op) is None:  # which is what makes autograd decompose a call
            made.set_inner(inner.op, dict(inner.attrs))
    elif views:
        bare = not isinstance(call.result, tuple)
        if not wanted:
            made.set_views(views, bare)
        else:
            _describe_recorded(made, call, lambda attached: made.set_views(views, bare) is None)
    elif launch is not None and not wanted:
        describe_launch(made, launch, call.flat, passes)
    elif launch is not None and recorder is not None and passes:
        _describe_recorded(made, call, lambda attached: describe_launch(made, launch, call.flat, True, attached))


def _direct_views(call: Made) -> tuple[DirectView, ...]:
    """The views that a call gives, if native code can make all of them; else none."""
    if len(call.operands) > 1:
        return ()
    one = planned_view(call.op, call.operands, call.attrs)
    plans = planned_views(call.op, call.operands, call.attrs) if one is None else [one]
    views = [plan.direct for plan in plans]
    known = tuple([view for view in views if view is not None])
    return known if len(known) == len(views) <= layout.MOST_VIEWS else ()


def _lie_apart(flat: Sequence[Any]) -> bool:
    """Whether all operands but the first share no memory with it, unless they are it: of others a key does not tell."""
    others = [one for one in flat[1:] if isinstance(one, Handle) and one is not flat[0]]
    return all(relation(one, flat[0]) == APART for one in others)


def _describe_write(made: Record, call: Made) -> None:
    """Fills the record of an in-place form without history in, if native code can run it."""
    planned = planned_write(call.op, call.operands, call.attrs)
    if planned is None:
        return
    flat = call.flat
    places = list(range(0 if call.op.base is not None else 1, len(flat)))
    places += [0] if planned.apart else []
    used = [flat[place] for place in places]
    if len(used) <= layout.MOST_ARGUMENTS and describe_launch(made, planned.launch, used, True):
        made.set_write(places)


def _describe_recorded(made: Record, call: Made, describe: Callable[[tuple[int, ...]], bool]) -> None:
    """Fills the record of a recorded call in, if native code can write its tape. `describe` says how it is computed."""
    flat = call.flat
    there = tuple([wanted for operand, wanted in zip(flat, call.needed, strict=True) if operand is not None])
    taped = recorded(call.op, call.operands, call.attrs, there, call.results)
    if taped is None:
        return
    if taped.recipe is None:
        describe(())
        return
    sources = _sources(taped.recipe, call.operands)
    if sources is not None and describe(taped.outputs):
        made.set_tape(taped, flat, sources)


def _sources(recipe: Recipe, operands: tuple[Any, ...]) -> list[tuple[int, int, object]] | None:
    """What the calls of a recipe save: kind, number and object; None if native code cannot."""
    sources: list[tuple[int, int, object]] = []
    begins = list(itertools.accumulate([_width(operand) for operand in operands], initial=0))
    for position, (is_result, at, used) in enumerate(recipe.sources):
        if position not in recipe.differing:
            sources.append((layout.FORMS, 0, recipe.saved[position]))
        elif isinstance(used, tuple):
            return None
        elif is_result:
            sources.append((layout.RESULT_TENSOR, at, None))
        else:
            kind = layout.OPERAND_TENSOR if isinstance(operands[at], Handle) else layout.OPERAND_NUMBER
            sources.append((kind, begins[at], None))
    return sources if len(sources) <= layout.MOST_SAVED else None


def _width(operand: object) -> int:
    return len(operand) if isinstance(operand, tuple) else 1


def describe_step(made: Record, node: OperatorNode, plan: DerivativePlan, flat: Sequence[Any]) -> None:
    """Fills the record of a step in, if native code can run it."""
    most = min(layout.MOST_ARGUMENTS, len(node.edges))
    if plan.is_replayed or len(plan.sources) > most or len(flat) > layout.MOST_ARGUMENTS:
        return
    if plan.kernel is not None:
        if plan.kernel.launch is None or not describe_launch(made, plan.kernel.launch, flat, passes=True):
            return
    else:
        made.words[layout.FILLED] = len(flat)
        for number, value in enumerate(flat):
            made.set_argument(number, layout.ABSENT, expected=word_of(value))
    sources: list[int] = []
    for source in plan.sources:
        sources.append(0 if source is None else -1 - source[0] if isinstance(source, tuple) else 1 + source)
    paths = [source[1] if isinstance(source, tuple) else () for source in plan.sources]
    made.set_gradients(sources, paths, node.saves_tensors, plan)


def describe_launch(
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


def word_of(operand: object) -> int:
    """As the native `word_of`."""
    if operand is None:
        return 1
    if isinstance(operand, Handle):
        form: TensorMeta = operand.form
        return id(form)
    return id(operand.__class__) if operand.__class__ in _NUMBERS and operand.__class__ in NUMBER_FORMS else 0


def _words_of_operands(operands: Sequence[object]) -> list[int] | None:
    """As the native `add_operands`; None where that gives up."""
    words: list[int] = []
    for operand in operands:
        if operand.__class__ is tuple:
            members: Any = operand
            words += [id(tuple), len(members), *[word_of(member) for member in members]]
            if not members:
                return None
        else:
            words.append(word_of(operand))
    return None if 0 in words else words


def words_of_attributes(attrs: Mapping[str, object]) -> list[int] | None:
    """As the native `add_attributes`; None where that gives up, and for texts that calls make anew."""
    words: list[int] = []
    for name, value in attrs.items():
        of_value = _words_of_value(value)
        if of_value is None or sys.intern(name) is not name:
            return None
        words += [id(name), *of_value]
    return words


def _words_of_value(value: Any) -> list[int] | None:
    kind = value.__class__
    if kind is int:
        return [id(int), value] if _INT64[0] <= value <= _INT64[1] else None
    if kind is float:
        return [id(float), _bits(value)]
    if kind is tuple:
        members = [_words_of_value(member) for member in value]
        words = [word for member in members for word in member or ()]
        return None if None in members else [id(tuple), len(value), *words]
    if kind is str:
        return [id(value)] if sys.intern(value) is value else None
    return [id(value)] if value is None or value is CPU or kind in (bool, DType) else None
