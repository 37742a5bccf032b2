"""Random state: a seed and the ordinal of the next call, nothing else.

A random value depends on (seed, call ordinal, logical index of the element), so that it does not depend on how, where
or in how many pieces it is computed. Operators take (seed, ordinal) as two integers.
"""

import os
import threading
from collections.abc import Callable
from typing import Any

from rushlight.ir.type import CPU, Device
from rushlight.support.errors import require

_LOCK = threading.Lock()
_MASK = (1 << 64) - 1
DEFAULT_SEED = 67280421310721  # PyTorch's default seed


class Generator:
    """A stream of random calls. Thread safe: each call of `next_ordinal` gets a number of its own.

    The first argument is a seed or, as in PyTorch, a device. Streams are the same on all devices.
    """

    __slots__ = ("_ordinal", "_seed", "device")

    def __init__(self, seed: int | str | Device = DEFAULT_SEED, *, device: str | Device = CPU) -> None:
        if isinstance(seed, (str, Device)):
            seed, device = DEFAULT_SEED, seed
        require(isinstance(seed, int), "A001", "Generator: an int is expected as the seed", seed=seed)
        self.device = Device(device)
        self._seed = seed & _MASK
        self._ordinal = 0

    def initial_seed(self) -> int:
        """The seed, as an unsigned 64-bit integer."""
        return self._seed

    def manual_seed(self, seed: int) -> "Generator":
        """Start the stream of `seed` from its beginning."""
        require(isinstance(seed, int), "A001", "manual_seed: an int is expected", seed=seed)
        require(-(1 << 63) <= seed <= _MASK, "A002", "manual_seed: a seed has at most 64 bits", seed=seed)
        _changes()
        with _LOCK:
            self._seed = seed & _MASK
            self._ordinal = 0
        return self

    def seed(self) -> int:
        """Start a stream that nobody knows; its seed."""
        fresh = int.from_bytes(os.urandom(8), "little")
        self.manual_seed(fresh)
        return fresh

    def next_ordinal(self, count: int = 1) -> tuple[int, int]:
        """(seed, ordinal) of the next call, or of the first of the next `count` calls."""
        with _LOCK:
            ordinal = self._ordinal
            self._ordinal = ordinal + count
            return self._seed, ordinal

    def reserve(self, count: int, reserved: list[int | None], position: int) -> tuple[int, int]:
        """As `next_ordinal`, for a call that may not happen: `give_back` takes `reserved[place]`, set with the state.

        No interrupt comes between the two assignments.
        """
        with _LOCK:
            ordinal = self._ordinal
            after = ordinal + count
            reserved[position] = after
            self._ordinal = after
            return self._seed, ordinal

    def give_back(self, count: int, after: int | None) -> None:
        """Undoes a reservation, unless others have drawn since; `after` is what `reserve` wrote down."""
        with _LOCK:
            if after is not None and self._ordinal == after:
                self._ordinal = after - count

    def position(self) -> tuple[int, int]:
        """(seed, ordinal of the next call)."""
        with _LOCK:
            return self._seed, self._ordinal

    def go_to(self, position: tuple[int, int]) -> "Generator":
        """Continue from a position that `position` returned."""
        _changes()
        seed, ordinal = position
        with _LOCK:
            self._seed = seed & _MASK
            self._ordinal = ordinal
        return self

    def get_state(self) -> Any:
        """The state as a uint8 tensor of 16 elements: the seed and the ordinal of the next call."""
        write, _ = state_format[0]
        return write(self.position())

    def set_state(self, new_state: Any) -> "Generator":
        """Continue from a state that `get_state` returned. Errors: A001, A002 for anything else."""
        _, read = state_format[0]
        return self.go_to(read(new_state))

    graphsafe_get_state = get_state
    graphsafe_set_state = set_state


def _changes() -> None:
    for tell in before_change:
        tell()


before_change: list[Callable[[], None]] = []
"""What is told before a program sets a seed or a state; it may refuse."""
state_format: list[tuple[Callable[[tuple[int, int]], Any], Callable[[Any], tuple[int, int]]]] = []
"""How a position is written as a tensor, and read: the layer of tensors says it."""
default_generator = Generator()
"""The generator of calls that name none."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release)
