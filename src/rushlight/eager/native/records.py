"""Records of calls that were learned, and the table in which native code finds them."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence

from rushlight.eager.autograd.record import Recorded
from rushlight.eager.execution.plan import Launch
from rushlight.eager.execution.views import DirectView
from rushlight.eager.handle import AUTOGRAD
from rushlight.eager.native import layout
from rushlight.runtime import allocator
from rushlight.runtime.descriptor import ArgumentBlock

_MOST_RECORDS = layout.TABLE_WORDS // 4


class Record:
    """The words of one learned call, and all that they refer to."""

    __slots__ = ("_kept", "address", "key", "words")

    def __init__(self, key: Sequence[int], kept: Sequence[object]) -> None:
        self.words = array("q", [0] * layout.RECORD_WORDS)
        self.words[: len(key)] = array("q", key)
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

    def set_views(self, views: Sequence[DirectView], bare: bool) -> None:
        """Says that the call gives views of its operand, or the one view where it is `bare`."""
        parts = [Record([0], []) for _ in views]
        for part, view in zip(parts, views, strict=True):
            part._set_view(view)
        addresses = array("q", [part.address for part in parts])
        words = self.words
        words[layout.PASSES], words[layout.RESULTS], words[layout.BARE] = 1, len(views), bare
        words[layout.VIEWS] = addresses.buffer_info()[0]
        self._kept = (*self._kept, addresses, *parts)

    def _set_view(self, direct: DirectView) -> None:
        words, steps, form = self.words, direct.steps, direct.form
        keys = form.keys | AUTOGRAD if steps else form.keys
        words[layout.DISTANCE], words[layout.STRIDED] = direct.distance, direct.strided
        words[layout.STEPS] = id(steps) if steps else 0
        words[layout.OUTPUTS + layout.FORM] = id(form)
        words[layout.OUTPUTS + layout.KEYS] = id(keys)
        self._kept = (*self._kept, form, keys, steps)

    def set_inner(self, op: object, attrs: Mapping[str, object]) -> None:
        """Says that the call gives what another operator gives of the same operand."""
        self.words[layout.INNER], self.words[layout.INNER_ATTRIBUTES] = id(op), id(attrs)
        self.words[layout.PASSES] = 1
        self._kept = (*self._kept, op, attrs)

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
        """Says what fills argument `number` in; `expected` is its word, 0 for one that is not filled in."""
        start = layout.ARGUMENTS + layout.ARGUMENT_WORDS * number
        self.words[start : start + layout.ARGUMENT_WORDS] = array("q", [kind, at, scale, *bounds, expected, number])

    def set_write(self, places: Sequence[int]) -> None:
        """Says that the call writes to its first operand; `places` has the number of each argument's operand."""
        self.words[layout.WRITES] = 1
        for number, place in enumerate(places):
            self.words[layout.ARGUMENTS + layout.ARGUMENT_WORDS * number + layout.OPERAND] = place

    def set_gradients(
        self, sources: Sequence[int], paths: Sequence[Sequence[object]], holds_tensors: bool, plan: object
    ) -> None:
        """Says what a step gives to each of its edges, by which views, and whether it saves tensors."""
        self.words[layout.GRADIENT_COUNT] = len(sources)
        self.words[layout.HOLDS_TENSORS] = holds_tensors
        self.words[layout.GRADIENTS : layout.GRADIENTS + len(sources)] = array("q", sources)
        self.words[layout.PATHS : layout.PATHS + len(paths)] = array("q", [id(path) if path else 0 for path in paths])
        self._kept = (*self._kept, *paths, plan)


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
