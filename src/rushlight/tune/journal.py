"""Journals of timings: what a search asked and was told, by which it can be repeated without measuring."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Generic

from rushlight.support.errors import error
from rushlight.tune.measure import Answer, Choice, Contest


class Journal:
    """Lines `race | choice | best | seconds best's seconds`; those of a file that exists are replayed."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self.replays = self.path.exists()
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str, str], list[Answer]] = {}
        for number, line in enumerate(self._lines() if self.replays else (), 1):
            try:
                key, answer = _parsed(line)
            except ValueError:
                message = "tuning: a line of the timings is not RACE | CHOICE | BEST | SECONDS SECONDS"
                raise error("T004", message, line=line, place=f"{self.path}:{number}") from None
            self._known.setdefault(key, []).append(answer)

    def _lines(self) -> list[str]:
        try:
            return self.path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as cause:
            raise error("T004", "tuning: the timings cannot be read", cause=str(cause), place=str(self.path)) from cause

    def get(self, race: str, choice: str, best: str, turn: int) -> Answer | None:
        """What a race was told when it asked about two choices before: in turn, then the last answer again."""
        answers = self._known.get((race, choice, best))
        return None if answers is None else answers[min(turn, len(answers) - 1)]

    def put(self, race: str, choice: str, best: str, answer: Answer) -> None:
        """Notes an answer."""
        mine, other = answer
        line = f"{race} | {choice} | {best} | {'different' if mine is None else repr(mine)} {other!r}\n"
        with self._lock, self.path.open("a", encoding="utf-8") as file:
            file.write(line)


def _parsed(line: str) -> tuple[tuple[str, str, str], Answer]:
    """A line's race, choice and best, and their seconds. ValueError where it is no such line."""
    race, choice, best, seconds = [part.strip() for part in line.split("|")]
    mine, other = seconds.split()
    return (race, choice, best), (None if mine == "different" else float(mine), float(other))


class JournaledRace(Generic[Choice]):
    """A race whose answers are noted; or those of a journal that is replayed, in which no race is made."""

    def __init__(
        self, name: str, journal: Journal, make: Callable[[], Contest[Choice]], text: Callable[[Choice], str]
    ) -> None:
        self._name = name
        self._journal = journal
        self._text = text
        self._race = None if journal.replays else make()
        self._turns: Counter[tuple[str, str]] = Counter()

    def prepare(self, choice: Choice) -> None:
        """See `Contest`."""
        if self._race is not None:
            self._race.prepare(choice)

    def run(self, choice: Choice, best: Choice) -> Answer | None:
        """See `Contest`: None where the journal ends."""
        if self._race is None:
            asked = self._text(choice), self._text(best)
            self._turns[asked] += 1
            return self._journal.get(self._name, *asked, self._turns[asked] - 1)
        answer = self._race.run(choice, best)
        if answer is not None:
            self._journal.put(self._name, self._text(choice), self._text(best), answer)
        return answer

    def close(self) -> None:
        """See `Contest`."""
        if self._race is not None:
            self._race.close()
