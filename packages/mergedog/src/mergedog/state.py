"""What mergedog remembers of one pull request: a JSON file that is replaced whole, and a lock beside it.

The forge is the source of truth; the file holds what the forge cannot tell: which commits are trusted and why, how
often each action happened, what was begun, and what agents said. Entries that this version does not know are kept.
"""

import dataclasses
import fcntl
import json
import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from mergedog.errors import BoundReached, StateError

SCHEMA = 1
LOG_LINES = 500


@dataclass(slots=True)
class Approval:
    """The approval in force."""

    sha: str
    by: str
    at: float


@dataclass(slots=True)
class TrustedCommit:
    """A commit that is trusted: its tree, why, and the patches that lead to it from the base branch."""

    tree: str
    why: str
    patches: list[str]


@dataclass(slots=True)
class Pending:
    """A commit of ours that is about to be pushed on top of `parent`."""

    sha: str
    parent: str
    why: str


@dataclass(slots=True)
class AgentSession:
    """What came of asking the agent once; texts are sanitised."""

    task: str
    head: str
    outcome: str
    note: str = ""


@dataclass(slots=True)
class Waiting:
    """Where the pull request stands, and who can unblock it."""

    phase: str = "new"
    who: str = "mergedog"
    why: str = ""
    since: float = 0.0


@dataclass(slots=True)
class State:
    """All that is remembered; plain JSON values only."""

    repository: str
    number: int
    approval: Approval | None = None
    trusted: dict[str, TrustedCommit] = field(default_factory=dict[str, TrustedCommit])
    counts: dict[str, int] = field(default_factory=dict[str, int])
    begun: list[str] = field(default_factory=list[str])
    pending: Pending | None = None
    pushed: str = ""
    seen: dict[str, float] = field(default_factory=dict[str, float])
    spurious: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    workflows: list[str] = field(default_factory=list[str])
    full: dict[str, float] = field(default_factory=dict[str, float])
    sessions: list[AgentSession] = field(default_factory=list[AgentSession])
    comment: int = 0
    waiting: Waiting = field(default_factory=Waiting)
    log: list[str] = field(default_factory=list[str])
    schema: int = SCHEMA
    unknown: dict[str, object] = field(default_factory=dict[str, object])

    def begin(self, action: str, group: str, limit: int) -> None:
        """Count an action before it happens; one that was begun before a restart is not counted again."""
        if action in self.begun:
            return
        if self.counts.get(group, 0) >= limit:
            raise BoundReached(f"{group.split(':')[0]}: the limit of {limit} is reached")
        self.counts[group] = self.counts.get(group, 0) + 1
        self.begun.append(action)

    def finish(self, action: str, line: str) -> None:
        """Note that an action is done."""
        if action in self.begun:
            self.begun.remove(action)
        self.log.append(line)
        del self.log[:-LOG_LINES]


def encoded(state: State) -> str:
    """Return the state as JSON text."""
    table = dataclasses.asdict(state)
    unknown = cast("dict[str, object]", table.pop("unknown"))
    return json.dumps({**unknown, **table}, indent=1, sort_keys=True) + "\n"


def decoded(text: str) -> State:
    """Return the state of a JSON text; raise `StateError` for anything else."""
    try:
        table = cast("dict[str, object]", json.loads(text))
        if not isinstance(table, dict):
            raise StateError("the state is no JSON object")
        schema = table.get("schema")
        if not isinstance(schema, int) or schema > SCHEMA:
            raise StateError(f"the state has schema {schema!r}; this version reads up to {SCHEMA}: update mergedog")
        return _state(table)
    except (json.JSONDecodeError, TypeError, KeyError, AttributeError) as error:
        raise StateError(f"the state cannot be read ({type(error).__name__}): restore it, or remove it") from None


def _state(table: dict[str, object]) -> State:
    known = {item.name for item in dataclasses.fields(State)} - {"unknown"}
    values = {key: value for key, value in table.items() if key in known}
    for key, kind in (("approval", Approval), ("pending", Pending), ("waiting", Waiting)):
        part = values.get(key)
        if part is not None:
            values[key] = kind(**cast("dict[str, object]", part))  # pyright: ignore[reportArgumentType] - JSON
    trusted = cast("dict[str, dict[str, object]]", values.get("trusted", {}))
    values["trusted"] = {
        sha: TrustedCommit(str(of["tree"]), str(of["why"]), cast("list[str]", of["patches"]))
        for sha, of in trusted.items()
    }
    sessions = cast("list[dict[str, str]]", values.get("sessions", []))
    values["sessions"] = [AgentSession(**of) for of in sessions]
    state = State(**values)  # pyright: ignore[reportArgumentType] - JSON that this version wrote
    state.unknown = {key: value for key, value in table.items() if key not in known}
    return state


@dataclass(frozen=True, slots=True)
class Store:
    """The folder of one pull request's state."""

    folder: Path

    @property
    def path(self) -> Path:
        """The state file."""
        return self.folder / "state.json"

    def load(self, repository: str, number: int) -> State:
        """Return what is remembered, or a new state."""
        if not self.path.exists():
            return State(repository, number)
        state = decoded(self.path.read_text(encoding="utf-8"))
        if (state.repository, state.number) != (repository, number):
            raise StateError(f"{self.path} is about {state.repository}#{state.number}")
        return state

    def save(self, state: State) -> None:
        """Replace the file: after a crash at any point it is the old one or the new one."""
        replace_file(self.path, encoded(state))

    @contextmanager
    def locked(self) -> Generator[None]:
        """Hold the pull request: a second process is told so."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise StateError(f"another mergedog works in {self.folder}") from None
            yield


def replace_file(path: Path, text: str) -> None:
    """Write a file beside `path` and rename it to it, on disk before it has the name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}.new")
    with draft.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
