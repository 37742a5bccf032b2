"""Results of tuning as lines of text that people can read, sort, edit and copy to other machines.

    <machine> | <product> | <tile> | <what was measured>

The last line about a product on a machine counts. A line that says nothing, or no choice that there is, is warning K006
and has no effect. Files of several machines are merged by writing one behind the other.
"""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from pathlib import Path

from rushlight.ir.gemm_tile import GemmTile
from rushlight.support import events, settings
from rushlight.support.errors import warn
from rushlight.support.files import regular_bytes
from rushlight.support.frozen import frozen

FILE = "tuned.txt"
_APPENDING = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NONBLOCK", 0)  # a pipe is an error, not a wait
SEARCHED = ("mr", "nr", "mc", "nc", "unroll")
"""The fields of a tile that a search may change."""


_MOST_STACK_BYTES = 512 << 10  # for a block of a plain `a`


@frozen
class Record:
    """The tile for a product on a machine, and the measurement as text."""

    machine: str
    product: str
    tile: str
    measured: str = ""

    def __str__(self) -> str:
        return " | ".join((self.machine, self.product, self.tile, self.measured))


class Records:
    """The records in a folder; without one, of this process alone."""

    def __init__(self, folder: str) -> None:
        self.path = Path(folder, FILE) if folder else None
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], Record] = {}
        self._numbers: dict[Record, int] = {}  # of the lines that they were read from
        for number, line in enumerate(self._lines(), 1):
            record = _parsed(line)
            if record is not None:
                self._known[record.machine, record.product] = record
                self._numbers[record] = number
            elif line.strip():
                self._warn(line, number, "it is not MACHINE | KERNEL | CHOICE | MEASURED")

    def get(self, machine: str, product: str) -> Record | None:
        """Return the record of a product on a machine, or None."""
        return self._known.get((machine, product))

    def all(self) -> tuple[Record, ...]:
        """All records, the last for each product and machine."""
        return tuple(self._known.values())

    def put(self, record: Record) -> None:
        """Keeps a record; where it cannot be written, for this process."""
        with self._lock:
            self._known[record.machine, record.product] = record
            if self.path is None:
                return
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                # One write to the end of the file: processes that tune at once do not mix their lines.
                with os.fdopen(os.open(self.path, _APPENDING, 0o644), "ab") as file:
                    file.write(f"{record}\n".encode())
            except OSError as cause:
                events.record("tuning", "unwritten", f"{self.path}: {cause.strerror}")

    def warn(self, record: Record, reason: str) -> None:
        """Says that a record has no effect: the cost model's choice is taken."""
        self._warn(str(record), self._numbers.get(record, 0), reason)

    def _warn(self, line: str, number: int, reason: str) -> None:
        events.record("tuning", "unreadable", f"{number}: {line}"[:80])
        place = f"{self.path}:{number}"
        warn("K006", f"a record of tuning has no effect: {reason}", key=(place, line), record=line, place=place)

    def merge(self, path: Path) -> int:
        """Takes the records of another file over, and returns how many they were. OSError if it cannot be read."""
        lines = regular_bytes(path)[0].decode().splitlines()
        taken = [record for record in map(_parsed, lines) if record is not None]
        for record in taken:
            self.put(record)
        return len(taken)

    def _lines(self) -> list[str]:
        try:
            return [] if self.path is None else regular_bytes(self.path)[0].decode().splitlines()
        except FileNotFoundError:
            return []
        except (OSError, UnicodeDecodeError) as cause:
            events.record("tuning", "unreadable", f"{self.path}: {cause}"[:200])
            return []


def _parsed(line: str) -> Record | None:
    parts = [part.strip() for part in line.split("|")]
    return Record(*parts) if len(parts) == 4 and all(parts[:3]) else None


def tile_text(tile: GemmTile) -> str:
    """The searched fields of a tile."""
    return " ".join([f"{name}={getattr(tile, name)}" for name in SEARCHED])


def tile_from_text(text: str, model: GemmTile) -> GemmTile | None:
    """The model's tile with the fields of a text; None where the text says no such tile."""
    values: dict[str, int] = {}
    for word in text.split():
        name, _, value = word.partition("=")
        if name not in SEARCHED or not value.isdecimal():
            return None
        values[name] = int(value)
    tile = replace(model, **values)
    return tile if set(values) == set(SEARCHED) and is_tile(tile) else None


def with_sizes_of(tile: GemmTile, other: GemmTile) -> GemmTile:
    """A tile with the searched fields of another."""
    return replace(tile, **{name: getattr(other, name) for name in SEARCHED})


def is_tile(tile: GemmTile) -> bool:
    """Whether the sizes of a tile fit each other, the registers and a task's stack."""
    registers = 32 if tile.vector_bytes == 64 else 16
    whole = tile.nr % tile.lanes == 0 and tile.mc % tile.mr == 0 and tile.nc % tile.nr == 0
    positive = min(tile.mr, tile.nr, tile.mc, tile.nc, tile.unroll) >= 1
    if not positive or not whole or tile.block_steps % tile.unroll:
        return False
    fits = tile.mr * tile.vectors + tile.vectors + 1 <= registers
    return fits and tile.mc * tile.block_steps * tile.itemsize <= _MOST_STACK_BYTES


_shared: dict[str, Records] = {}
_shared_lock = threading.Lock()


def shared_records() -> Records:
    """The records in the cache folder that the settings name."""
    folder = settings.cache_dir() if settings.get().cache else ""
    with _shared_lock:
        if folder not in _shared:
            _shared[folder] = Records(folder)
        return _shared[folder]
