"""Tapes: every call that leaves the harness, with its result, so that a session can be played again without a world.

The harness is a function of its state, its policy and what these calls return. A line of a tape is written after its
call; a kill loses at most the last one.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from mergedog.agent import Agent
from mergedog.clock import Clock
from mergedog.codec import decode, encode
from mergedog.errors import MergedogError, StateError
from mergedog.forge import Forge
from mergedog.policy import Policy
from mergedog.repository import Repository
from mergedog.session import World
from mergedog.state import State, Store, decoded, encoded

Line = dict[str, object]
TAPES = 5


class Ended(BaseException):
    """The tape has no further line: the recorded process ended here."""


class Diverges(StateError):
    """The replay asked for something else than the recorded session."""


@dataclass(slots=True)
class Tape:
    """A file of JSON lines that grows."""

    path: Path

    def begin(self, state: State, policy: Policy) -> None:
        """Write what a session begins with."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text("", encoding="utf-8")
        self.add({"state": encoded(state), "policy": policy.text})

    def add(self, line: Line) -> None:
        """Append a line in one write."""
        with self.path.open("ab", buffering=0) as file:
            file.write((json.dumps(line) + "\n").encode())


def next_tape(folder: Path) -> Tape:
    """Return a tape for a new session; the oldest ones go."""
    tapes = sorted(folder.glob("tape-*.jsonl"))
    for old in tapes[: max(0, len(tapes) - TAPES + 1)]:
        old.unlink()
    last = int(tapes[-1].stem.split("-")[1]) if tapes else 0
    return Tape(folder / f"tape-{last + 1:06}.jsonl")


def read_tape(path: Path) -> list[Line]:
    """Return the lines of a tape; a last one that was cut off is left out."""
    lines = path.read_text(encoding="utf-8").split("\n")
    return [cast("Line", json.loads(line)) for line in lines[:-1]]


@dataclass(frozen=True, slots=True)
class Recorded:
    """Stands for one part of the world, and writes down each call."""

    part: str
    target: object
    tape: Tape

    def __getattr__(self, name: str) -> Callable[..., object]:
        method = cast("Callable[..., object]", getattr(self.target, name))

        def call(*arguments: object) -> object:
            line: Line = {"part": self.part, "call": name, "arguments": [encode(each) for each in arguments]}
            try:
                result = method(*arguments)
            except MergedogError as error:
                self.tape.add({**line, "error": encode(error)})
                raise
            self.tape.add({**line, "result": encode(result)})
            return result

        return call


def recorded(world: World, tape: Tape) -> World:
    """Return a world whose calls are written down."""
    return World(
        cast("Forge", Recorded("forge", world.forge, tape)),
        cast("Repository", Recorded("repository", world.repository, tape)),
        cast("Agent", Recorded("agent", world.agent, tape)),
        cast("Clock", Recorded("clock", world.clock, tape)),
    )


@dataclass(frozen=True, slots=True)
class RecordedStore(Store):
    """A store that notes on the tape what it saved."""

    tape: Tape

    def save(self, state: State) -> None:
        """Replace the file, and note the digest of what is in it."""
        Store.save(self, state)
        self.tape.add({"part": "store", "call": "save", "arguments": [_digest(state)], "result": None})


@dataclass(slots=True)
class Player:
    """Answers calls from a tape, as long as they are those of the recorded session."""

    lines: Iterator[Line]
    calls: int = 0

    def answer(self, part: str, name: str, arguments: tuple[object, ...]) -> object:
        """Return, or raise, what the call did then."""
        line = next(self.lines, None)
        if line is None:
            raise Ended
        self.calls += 1
        asked = (part, name, [encode(each) for each in arguments])
        if asked != (line["part"], line["call"], line["arguments"]):
            raise Diverges(f"call {self.calls} is {part}.{name}, and {line['part']}.{line['call']} was recorded")
        if "error" in line:
            raise cast("MergedogError", decode(line["error"]))
        return decode(line["result"])


@dataclass(frozen=True, slots=True)
class Played:
    """Stands for one part of the world of a recorded session."""

    part: str
    player: Player

    def __getattr__(self, name: str) -> Callable[..., object]:
        return lambda *arguments: self.player.answer(self.part, name, arguments)


@dataclass(frozen=True, slots=True)
class PlayedStore(Store):
    """A store in memory, which checks that what is saved is what was saved."""

    player: Player
    texts: list[str] = field(default_factory=list[str])

    def load(self, repository: str, number: int) -> State:
        """Return what was saved last."""
        return decoded(self.texts[-1])

    def save(self, state: State) -> None:
        """Keep the state, if it is the one of the tape."""
        self.player.answer("store", "save", (_digest(state),))
        self.texts.append(encoded(state))


def played(player: Player) -> World:
    """Return the world of a tape."""
    return World(
        cast("Forge", Played("forge", player)),
        cast("Repository", Played("repository", player)),
        cast("Agent", Played("agent", player)),
        cast("Clock", Played("clock", player)),
    )


def _digest(state: State) -> str:
    return hashlib.sha256(encoded(state).encode()).hexdigest()
