"""The board on which the processes of one machine post what they do, in memory that they share.

Each posts its calls with a number, a hash of what has to agree between ranks, rolled over all calls of the group before
it, and the call in words. So a rank that waits sees who has come with something else, who has not come, and who has
ended; and one whose call is complete sees whether it was the same call on all ranks.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Hashable, Iterable
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rushlight.distributed.engine.call import Call, numbered

PLACES = 64  # calls of one rank that the board holds
_TEXT = 400  # bytes of a call in words


class State(IntEnum):
    """What a rank does."""

    RUNNING = 1
    ENDED = 2
    FAILED = 3


_KNOWN = 1024  # calls whose words a board keeps
_HEAD = np.dtype(
    [
        ("state", "<i4"),
        ("pid", "<i4"),
        ("message", "S64"),
        ("number", "<i8"),
        ("now", f"S{_TEXT}"),
        ("failure", f"S{_TEXT}"),
    ]
)


def board_bytes(ranks: int) -> int:
    """The size of a board."""
    return ranks * (_HEAD.itemsize + PLACES * (8 + 8 + _TEXT))


class Board:
    """One process's view of the board: `rank` is its place among the `ranks` of the machine."""

    def __init__(self, memory: memoryview | bytearray, ranks: int, rank: int) -> None:
        self.rank = rank
        whole: NDArray[np.uint8] = np.frombuffer(memory, np.uint8)[: board_bytes(ranks)]
        end = ranks * _HEAD.itemsize
        self._heads: NDArray[Any] = whole[:end].view(_HEAD)
        numbers = whole[end : end + ranks * PLACES * 16].view(np.int64).reshape(2, ranks, PLACES)
        self._keys, self._hashes = numbers
        self._texts: NDArray[np.bytes_] = whole[end + ranks * PLACES * 16 :].view(f"S{_TEXT}").reshape(ranks, PLACES)
        self._numbers, self._now = self._heads["number"], self._heads["now"]
        self._keys[rank] = -1
        self._heads[rank] = (State.RUNNING, os.getpid(), b"", 0, b"", b"")
        self._known: dict[Hashable, tuple[bytes, bytes]] = {}

    def post(self, group: int, call: Call, before: int) -> int:
        """Posts a call of a group; the hash of it and all `before` it. Messages are told, and not compared."""
        words, text = self._words(call)
        rank, sequence = self.rank, call.sequence
        self._now[rank], self._numbers[rank] = text, sequence
        if not sequence:
            return before
        rolled = zlib.crc32(words, before)
        place = _place(group, sequence)
        self._keys[rank, place] = -1
        self._texts[rank, place] = text
        self._hashes[rank, place] = rolled
        self._keys[rank, place] = _key(group, sequence)
        return rolled

    def _words(self, call: Call) -> tuple[bytes, bytes]:
        """What has to agree of a call, and the call in words, with its line and without its number."""
        form = call.form, call.frame
        found = self._known.get(form)
        if found is None:
            if len(self._known) >= _KNOWN:
                self._known.clear()
            found = self._known[form] = "|".join(call.agreement.values()).encode(), _text(call)
        return found

    def post_message(self, message: str, dtype: str) -> None:
        """Posts the last message that this rank has sent: its group, receiver, tag and number, and its dtype."""
        self._heads["message"][self.rank] = f"{message} {dtype}".encode()

    def sent(self, sender: int, message: str) -> str:
        """The dtype of the last message that a rank has sent, where it is this one."""
        posted, _, dtype = bytes(self._heads["message"][sender]).decode().rpartition(" ")
        return dtype if posted == message else ""

    def others(self, group: int, sequence: int, rolled: int, peers: Iterable[int]) -> list[int]:
        """The peers that have posted another call in place of this one."""
        place, key = _place(group, sequence), _key(group, sequence)
        keys, hashes = self._keys, self._hashes
        # The key is read again: a peer that has gone on meanwhile may have posted a later call here.
        return [
            peer
            for peer in peers
            if keys[peer, place] == key and hashes[peer, place] != rolled and keys[peer, place] == key
        ]

    def missing(self, group: int, sequence: int, peers: Iterable[int]) -> list[int]:
        """The peers that have not come to a call."""
        place, key = _place(group, sequence), _key(group, sequence)
        return [peer for peer in peers if self._keys[peer, place] != key]

    def posted(self, peer: int, group: int, sequence: int) -> str:
        """A peer's call in words, with its line; what it did last, where it has not come to the call."""
        place = _place(group, sequence)
        come = self._keys[peer, place] == _key(group, sequence)
        raw: bytes = self._texts[peer, place] if come else self._now[peer]
        last = raw.decode(errors="replace")
        if come:
            return numbered(sequence, last)
        last = last and numbered(int(self._numbers[peer]), last)
        return f"has not come; its last call is {last}" if last else "has not come, and has made no call yet"

    def state(self, peer: int) -> State:
        """What a peer does; FAILED where its process is gone without a word."""
        state = State(int(self._heads["state"][peer]) or State.RUNNING)
        return State.FAILED if state is State.RUNNING and not _is_alive(int(self._heads["pid"][peer])) else state

    def failure(self, peer: int) -> str:
        """Why a peer has failed."""
        text = bytes(self._heads["failure"][peer]).decode(errors="replace")
        return text or "its process was killed"

    def failed(self, peers: Iterable[int]) -> list[int]:
        """The peers that have failed."""
        return [peer for peer in peers if self.state(peer) is State.FAILED]

    def tell(self, state: State, failure: str = "") -> None:
        """Posts that this rank has ended or failed."""
        self._heads["failure"][self.rank] = failure.encode()[:_TEXT]
        self._heads["state"][self.rank] = state


def _text(call: Call) -> bytes:
    frame = call.frame
    where = "" if frame is None else f"\n      {os.path.basename(frame.filename)}:{frame.line} in {frame.function}"
    return (call.description + where).encode()[:_TEXT]


def _place(group: int, sequence: int) -> int:
    return (group + sequence) % PLACES


def _key(group: int, sequence: int) -> int:
    return (group & 0x7FFFFFFF) << 32 | sequence & 0xFFFFFFFF


def _is_alive(pid: int) -> bool:
    """Whether a process runs: one that has ended and was not waited for does not."""
    if not pid:
        return True
    try:
        with open(f"/proc/{pid}/stat", "rb") as status:
            return status.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except FileNotFoundError:
        return False
