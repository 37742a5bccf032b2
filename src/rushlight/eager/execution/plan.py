"""Plans: what a call does once its operands' forms are known. They are cached by exact forms and do no thinking.

The way from operands to results is straight-line Python, generated once per kind of call (how many operands of which
ranks, which of them are numbers, how many results), as `capture.writer` generates that of compiled functions:

    def run(operands):
        a0, a1, _ = operands                               # as the operator gets them
        try: sheet = free.pop()                            # descriptors that another call has put back
        except IndexError: sheet = fresh()
        words = sheet.words
        try:
            words[0] = a0.backing.address + 4 * a0.offset  # the address is all that is not known
            words[4] = a1.backing.address + 4 * a1.offset
        except FAULTS:
            refuse((a0, a1,))
            raise
        (s0,) = allocate(sizes)
        words[8] = s0.address
        launch(sheet)                                      # one native call
        free.append(sheet)
        r0 = new(cls)
        ...
        return r0
"""

from __future__ import annotations

import functools
from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from rushlight.eager.execution.operands import Structure, flatten, number_class
from rushlight.eager.handle import Handle, Version, adopted, fail_without_data
from rushlight.eager.tensor_meta import TensorMeta
from rushlight.ir.dtype import DType
from rushlight.ir.type import CPU
from rushlight.runtime.backend import allocate_on
from rushlight.runtime.descriptor import ArgumentBlocks, Slot
from rushlight.support.errors import fail

if TYPE_CHECKING:
    from rushlight.build import Executable


MOST_ARGUMENTS = 8
MOST_RESULTS = 4
"""How many operands and results native code takes."""


class Launch(NamedTuple):
    """What native code needs for a short call: `entry`, argument blocks, results and the dtype that numbers must fit.

    `starts` are the words of addresses: those of operands in order, then those of results. Keeps the executable, whose
    code the entry is.
    """

    executable: Executable
    entry: int
    bare: bool
    sheets: ArgumentBlocks
    starts: Sequence[int]
    outputs: tuple[TensorMeta, ...]
    fitting: DType | None


def _as_it_is(
    launch: Launch, operands: Sequence[object], run: Callable[..., Any], by_forms: bool = False
) -> Callable[..., Any]:
    return run


FASTER: list[Callable[..., Callable[..., Any]]] = [_as_it_is]
"""Gives a native function for the `run` of a plan, which does the same: (launch, operands, run, by_forms).

The operands are examples; `by_forms` says that they are forms of tensors, whose addresses are filled in.
"""

FAULTS = (AttributeError, OverflowError)
"""What filling in operands raises: a tensor without data has no storage, and a large int does not fit a word."""


class KernelPlan:
    """Runs an executable on operands: fills in addresses, allocates outputs, launches.

    `run(operands)` gives the tuple of outputs, or the one output where the plan is `bare`. Operands are flat unless a
    `structure` says how they are given. Each is a tensor, a number, or a Form where only sizes are read, of the same
    kinds at every call. `executable` is None where there is nothing to launch. Where calls `commit`, `run` also takes
    what makes a commit of the outputs, before they are computed.
    """

    __slots__ = ("launch", "outputs", "run")

    def __init__(
        self,
        executable: Executable | None,
        operands: Sequence[object],
        words: Sequence[tuple[int, ...]],
        outputs: Sequence[TensorMeta],
        structure: Structure | None = None,
        bare: bool = False,
        fitting: DType | None = None,
        commits: bool = False,
    ) -> None:
        """`operands` are examples; `words` are the descriptors of inputs, then outputs, without addresses.

        Numbers among the operands have to fit the dtype `fitting`: D007 where one does not.
        """
        self.outputs = tuple(outputs)
        self.launch: Launch | None = None
        flat = flatten(operands)
        forms = [operand.form if isinstance(operand, Handle) else operand for operand in flat]
        numbers = [
            (at, number_class(operand)) for at, operand in enumerate(forms) if operand.__class__ is not TensorMeta
        ]
        sheets = ArgumentBlocks(words, numbers)
        text = [f"{_pattern((True,) * len(flat) if structure is None else structure)} = operands"]
        text += fitting_text(flat, fitting)
        made: list[str] = []
        for position, form in enumerate(outputs):
            made += result_text(f"r{position}", f"s{position}", f"f{position}", form.keys)
        results = "r0" if bare else f"({''.join([f'r{index}, ' for index in range(len(outputs))])})"
        if executable is None:
            launch = None
            text += [*output_text([None] * len(outputs)), *made]
        else:
            shapes = [tuple(form.shape) for form in (*forms, *outputs) if form.__class__ is TensorMeta]
            work = executable.work_of(shapes)
            launch = executable.committer(work) if commits else executable.launcher(work)
            entry = None if commits else executable.short_entry(work)
            if entry is not None:
                self.launch = Launch(executable, entry, bare, sheets, sheets.starts, self.outputs, fitting)
            text += sheet_text()
            text += guarded_text(_operand_text(flat, sheets), [f"a{index}" for index in range(len(flat))])
            text += output_text(sheets.starts[len(sheets.starts) - len(outputs) :])
            call = [f"launch(sheet, commit({results}))" if commits else "launch(sheet)", "free.append(sheet)"]
            text += [*made, *call] if commits else [*call, *made]
        text.append(f"return {results}")
        sizes = tuple([form.nbytes for form in outputs])
        allocate = allocate_on(outputs[0].device if outputs else CPU)
        make = _maker("\n        ".join(text), len(outputs), "operands, commit" if commits else "operands")
        self.run: Callable[..., Any] = make(sheets.free, sheets.fresh, launch, sizes, allocate, adopted(), *outputs)
        if self.launch is not None and not any(isinstance(part, tuple) for part in structure or ()):
            self.run = FASTER[0](self.launch, operands, self.run)


@functools.lru_cache(maxsize=4096)
def _maker(text: str, outputs: int, arguments: str) -> Callable[..., Callable[..., Any]]:
    """What makes the `run` of plans whose calls have this text, and take these arguments."""
    forms = "".join([f", f{position}" for position in range(outputs)])
    whole = (
        f"def make(free, fresh, launch, sizes, allocate, cls{forms}):\n"
        f"    def run({arguments}):\n        {text}\n    return run\n"
    )
    space: dict[str, Any] = dict(CALL_NAMES)
    exec(compile(whole, "<rushlight call>", "exec"), space)  # noqa: S102 - our own text
    make: Callable[..., Callable[..., Any]] = space["make"]
    return make


def sheet_text(free: str = "free", fresh: str = "fresh") -> list[str]:
    """Takes a sheet."""
    return [f"try: sheet = {free}.pop()", f"except IndexError: sheet = {fresh}()", "words = sheet.words"]


def guarded_text(lines: Sequence[str], operands: Sequence[str]) -> list[str]:
    """Lines that fill in operands, with an error that says which one cannot be."""
    if not lines:
        return []
    names = "".join([f"{name}, " for name in operands])
    filled = [f"    {line}" for line in lines]
    return ["try:", *filled, "except FAULTS:", f"    refuse(({names}))", "    raise"]


def tensor_text(name: str, start: int, itemsize: int) -> str:
    """Fills in a tensor's address."""
    return f"words[{start}] = {name}.backing.address + {itemsize} * {name}.offset"


def number_text(name: str, kind: type, slot: Slot) -> list[str]:
    """Fills in a number."""
    where = "words" if slot.area == "words" else "sheet.reals"
    if kind is complex:
        return [f"{where}[{slot.at}] = {name}.real", f"{where}[{slot.at + 1}] = {name}.imag"]
    return [f"{where}[{slot.at}] = {name}"]


def fitting_text(flat: Sequence[object], dtype: DType | None) -> list[str]:
    """Code lines that refuse numbers which a dtype cannot hold.

    As in PyTorch, unsigned dtypes take negative numbers, which wrap.
    """
    numbers = [
        (f"a{at}", operand.__class__) for at, operand in enumerate(flat) if operand.__class__ in (int, float, complex)
    ]
    conditions = [(name, None if dtype is None else _fits(dtype, class_)) for name, class_ in numbers]
    return [
        f"if not ({condition.format(name)}): unfit({name}, {dtype.name!r})"
        for name, condition in conditions
        if dtype is not None and condition is not None
    ]


def _fits(dtype: DType, class_: type) -> str | None:
    """The condition on a number `{0}` of a class, or None: 16-bit floats take all, which become infinite."""
    bounds = dtype.bounds
    if class_ is complex:
        return None if dtype.is_complex else "False"
    if bounds is None:
        return None
    within = f"{bounds[0]} <= {{0}} <= {bounds[1]}"
    return within if dtype.is_integer else f"{{0}} - {{0}} != 0 or {within}"


def unfit(value: object, dtype: str) -> None:
    """The error of a number that the result's dtype cannot hold."""
    fail("D007", f"the number does not fit {dtype}", value=value)


def output_text(starts: Sequence[int | None], sizes: str = "sizes") -> list[str]:
    """Allocates outputs s0, s1, ... and fills in their addresses."""
    if not starts:
        return []
    names = "".join([f"s{position}, " for position in range(len(starts))])
    addresses = [f"words[{start}] = s{position}.address" for position, start in enumerate(starts) if start is not None]
    return [f"({names}) = allocate({sizes})", *addresses]


def result_text(name: str, storage: str, form: str, keys: int | str, cls: str = "cls") -> list[str]:
    """A new tensor on a storage, as `handle.make` makes it, without a call."""
    return [
        f"{name} = new({cls})",
        f"{name}.backing = {storage}",
        f"{name}.offset = 0",
        f"{name}.form = {form}",
        f"{name}.keys = {keys}",
        f"{name}.version = Version()",
        f"{name}.view_of = {name}.gradient = {name}.node = None",
    ]


def _operand_text(flat: Sequence[object], sheets: ArgumentBlocks) -> list[str]:
    lines: list[str] = []
    slots = {slot.position: slot for slot in sheets.slots}
    for position, operand in enumerate(flat):
        if isinstance(operand, Handle):
            lines.append(tensor_text(f"a{position}", sheets.starts[position], operand.form.dtype.itemsize))
        elif operand.__class__ is not TensorMeta:
            lines += number_text(f"a{position}", number_class(operand), slots[position])
    return lines


def _pattern(structure: Structure) -> str:
    """The left side of an assignment that takes operands apart into a0, a1, ..."""
    return _part(structure, count())


def _part(part: object, numbers: Iterator[int]) -> str:
    if isinstance(part, tuple):
        return f"({''.join([f'{_part(inner, numbers)}, ' for inner in part])})"
    return f"a{next(numbers)}" if part else "_"


def refuse(flat: Sequence[object]) -> None:
    """The error of an operand that could not be filled in: V003 and its like without data, D007 for a large int."""
    for operand in flat:
        if isinstance(operand, Handle) and operand.backing is None:
            fail_without_data(operand)
        if isinstance(operand, int):
            try:
                array("q", (operand,))
            except OverflowError:
                fail("D007", "the number does not fit int64", value=operand)


CALL_NAMES: dict[str, Any] = {
    "FAULTS": FAULTS,
    "Version": Version,
    "new": object.__new__,
    "refuse": refuse,
    "unfit": unfit,
}
