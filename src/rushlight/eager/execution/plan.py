"""Plans: what a call does once its operands' forms are known. They are cached by exact forms and do no thinking."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rushlight.eager.execution.operands import memory_of
from rushlight.eager.form import Form
from rushlight.eager.handle import Handle, make
from rushlight.runtime.allocator import allocate_many

if TYPE_CHECKING:
    from rushlight.build import Executable


class KernelPlan:
    """Runs an executable on flat operands: fills in addresses, allocates outputs, launches.

    The descriptors of inputs, then outputs lie in one array, copied from `template` at each call.
    """

    __slots__ = (
        *("_executable", "_inputs", "_launches", "_nbytes", "_offsets", "_outputs", "_template", "_work"),
        "outputs",
    )

    def __init__(
        self,
        executable: Executable,
        input_forms: Sequence[Form],
        words: Sequence[tuple[int, ...]],
        outputs: Sequence[Form],
        launches: bool = True,
    ) -> None:
        template: list[int] = []
        starts: list[int] = []
        for part in words:
            starts.append(len(template))
            template.extend((0, *part))
        self.outputs = tuple(outputs)
        self._executable = executable
        self._template = array("q", template)
        self._offsets = [start * 8 for start in starts]
        self._inputs = [(start, form.dtype.itemsize) for start, form in zip(starts, input_forms, strict=False)]
        self._outputs = starts[len(starts) - len(outputs) :]
        self._nbytes = [form.nbytes for form in outputs]
        self._launches = launches
        self._work = executable.work_of([form.shape for form in (*input_forms, *outputs)]) if launches else 0

    def run(self, flat: Sequence[Any]) -> list[Any]:
        """The outputs. An operand is a tensor, a number, or a Form where only sizes are read."""
        storages = allocate_many(self._nbytes)
        if self._launches:
            words = self._template[:]
            keep: list[Any] = []
            for operand, (start, itemsize) in zip(flat, self._inputs, strict=True):
                if isinstance(operand, Handle):
                    storage = operand.storage
                    words[start] = (
                        operand.address() if storage is None else storage.address
                    ) + operand.offset * itemsize
                elif not isinstance(operand, Form):
                    memory = memory_of(operand)
                    keep.append(memory)
                    words[start] = memory.buffer_info()[0]
            for storage, start in zip(storages, self._outputs, strict=True):
                words[start] = storage.address
            base = words.buffer_info()[0]
            self._executable.launch([base + offset for offset in self._offsets], self._work)
        return [make(storage, form) for storage, form in zip(storages, self.outputs, strict=True)]
