"""Bundles: one scrubbed file with the newest sessions of a pull request, which anybody can play again."""

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from mergedog import __version__
from mergedog.errors import StateError
from mergedog.policy import policy_from
from mergedog.secrets import Secret, scrub
from mergedog.session import Outcome, Wait
from mergedog.shepherd import Shepherd
from mergedog.state import State, decoded, replace_file
from mergedog.tape import Diverges, Ended, Line, PlayedStore, Player, played, read_tape


@dataclass(frozen=True, slots=True)
class Replay:
    """What playing a session again gave: its calls, the looks with their outcomes, and the state at the end."""

    calls: int
    looks: tuple[str, ...]
    state: State


def write_bundle(folder: Path, target: Path, *secrets: Secret) -> int:
    """Write the sessions of a state folder to a file, and return how many there are."""
    sessions = [read_tape(path) for path in sorted(folder.glob("tape-*.jsonl"))]
    calls = folder.parent / "calls.jsonl"
    made = calls.read_text(encoding="utf-8").splitlines()[-1000:] if calls.exists() else []
    whole = {"mergedog": __version__, "sessions": [each for each in sessions if each], "calls": made}
    replace_file(target, json.dumps(scrubbed(whole, *secrets), indent=1) + "\n")
    return len(whole["sessions"])


def scrubbed(value: object, *secrets: Secret) -> object:
    """Return a JSON value with every text scrubbed."""
    if isinstance(value, str):
        return scrub(value, *secrets)
    if isinstance(value, list):
        return [scrubbed(item, *secrets) for item in cast("list[object]", value)]
    if isinstance(value, dict):
        return {key: scrubbed(item, *secrets) for key, item in cast("dict[str, object]", value).items()}
    return value


def read_bundle(path: Path) -> list[list[Line]]:
    """Return the sessions of a bundle."""
    try:
        whole = cast("dict[str, object]", json.loads(path.read_text(encoding="utf-8")))
        return cast("list[list[Line]]", whole["sessions"])
    except (ValueError, KeyError, TypeError, OSError):
        raise StateError("the file is no bundle of mergedog") from None


def replay(session: list[Line]) -> Replay:
    """Play a session again; raise `Diverges` if it goes another way than it went."""
    start, *lines = session
    state, policy = str(start["state"]), policy_from(str(start["policy"]))
    player = Player(iter(lines))
    begun = decoded(state)
    store = PlayedStore(Path("/nowhere"), player, [state])
    looks: list[str] = []

    def watch(phase: str, outcome: Outcome) -> None:
        looks.append(f"{phase}: {_words(outcome)}")

    shepherd = Shepherd(played(player), policy, store, begun.repository, begun.number, watch)
    with suppress(Ended):
        shepherd.run()
    if next(player.lines, None) is not None:
        raise Diverges("the recorded session goes on where the replay ends")
    return Replay(player.calls, tuple(looks), decoded(store.texts[-1]))


def _words(outcome: Outcome) -> str:
    """Return an outcome as a short text."""
    match outcome:
        case Wait(who, why, _):
            return f"{who.value}: {why}"
        case _:
            return str(getattr(outcome, "what", getattr(outcome, "why", "")))
