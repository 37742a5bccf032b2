"""Constants of a program with frozen inputs: results of its `once` entry point, kept from call to call."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rushlight.eager.handle import Handle, allocate, hidden_writes
from rushlight.eager.tensor_meta import form_of
from rushlight.runtime.descriptor import ArgumentBlocks

if TYPE_CHECKING:
    from rushlight.build import Executable


class ConstantCache:
    """The results of an executable that reads `tensors`.

    `seen` are the values that `counters` had when the results were made: those of writes to the tensors, and to their
    `data`.
    """

    __slots__ = ("_launch", "_lock", "_sheets", "counters", "results", "seen")

    def __init__(self, executable: Executable, tensors: Sequence[Handle]) -> None:
        forms = [form_of(type_.shape, type_.dtype, type_.device) for type_ in executable.output_types]
        self.results: list[Any] = [allocate(form) for form in forms]
        versions = [tensor.version for tensor in tensors]
        self.counters = [*versions, *[hidden_writes(version) for version in versions]]
        self.seen: list[int] | None = None
        self._lock = threading.RLock()  # a signal handler may call the function too
        used = [*tensors, *self.results]
        self._sheets = ArgumentBlocks([constant.form.words for constant in used])
        for position, constant in enumerate(used):
            self._sheets.fix(position, constant.address())
        self._launch = executable.launcher(executable.work_of([tuple(constant.form.shape) for constant in used]))

    def refresh(self) -> None:
        """Makes the results anew, unless another thread just did."""
        with self._lock:
            seen = [counter.value for counter in self.counters]
            if seen != self.seen:
                self._launch(self._sheets.fresh())
                self.seen = seen
