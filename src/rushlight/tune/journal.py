"""Journals of timings: what a search asked and was told, by which it can be repeated without measuring."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Generic

from rushlight.tune.measure import Answer, Choice, Contest


class Journal:
    """Lines `race | choice | best | seconds best's seconds`; those of a file that exists are replayed."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self.replays = self.path.exists()
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str, str], Answer] = {}
        for line in self.path.read_text(encoding="utf-8").splitlines() if self.replays else []:
            *key, seconds = [part.strip() for part in line.split("|")]
            race, choice, best = key
            mine, other = seconds.split()
            self._known[race, choice, best] = (None if mine == "different" else float(mine), float(other))

    def get(self, race: str, choice: str, best: str) -> Answer | None:
        """What a race was told about two choices."""
        return self._known.get((race, choice, best))

    def put(self, race: str, choice: str, best: str, answer: Answer) -> None:
        """Notes an answer."""
        mine, other = answer
        line = f"{race} | {choice} | {best} | {'different' if mine is None else repr(mine)} {other!r}\n"
        with self._lock, self.path.open("a", encoding="utf-8") as file:
            file.write(line)


class JournaledRace(Generic[Choice]):
    """A race whose answers are noted; or those of a journal that is replayed, in which no race is made."""

    def __init__(
        self, name: str, journal: Journal, make: Callable[[], Contest[Choice]], text: Callable[[Choice], str]
    ) -> None:
        self._name = name
        self._journal = journal
        self._text = text
        self._race = None if journal.replays else make()

    def prepare(self, choice: Choice) -> None:
        """See `Contest`."""
        if self._race is not None:
            self._race.prepare(choice)

    def run(self, choice: Choice, best: Choice) -> Answer | None:
        """See `Contest`: None where the journal ends."""
        if self._race is None:
            return self._journal.get(self._name, self._text(choice), self._text(best))
        answer = self._race.run(choice, best)
        if answer is not None:
            self._journal.put(self._name, self._text(choice), self._text(best), answer)
        return answer

    def close(self) -> None:
        """See `Contest`."""
        if self._race is not None:
            self._race.close()
