"""Agents in memory: each way in which one may behave."""

from collections.abc import Callable, Sequence
from pathlib import Path

from mergedog.agent import Ending, How
from mergedog.simulated.objects import Files
from mergedog.simulated.repository import SimRepository, SimWorktree
from mergedog.untrusted import Untrusted

Act = Callable[[SimWorktree], Ending]


def commits(change: Files, subject: str = "[mergedog] repair") -> Act:
    """Return an agent that makes one commit."""

    def act(worktree: SimWorktree) -> Ending:
        worktree.commit(subject, change)
        return Ending(How.FINISHED)

    return act


def says_spurious(reason: str) -> Act:
    """Return an agent that makes no commit and says why."""
    return lambda worktree: Ending(How.FINISHED, Untrusted(reason, "agent"))


def ends(how: How) -> Act:
    """Return an agent that ends without a result."""
    return lambda worktree: Ending(how)


def in_turn(*acts: Act) -> Act:
    """Return an agent that does all of them in one session, and ends like the last."""

    def act(worktree: SimWorktree) -> Ending:
        endings = [each(worktree) for each in acts]
        return endings[-1]

    return act


class SimAgent:
    """Plays one act a session, the last one again and again; `prompts` is what it was handed."""

    def __init__(self, repository: SimRepository, acts: Sequence[Act] = ()) -> None:
        self._repository = repository
        self._acts = list(acts) or [ends(How.FAILED)]
        self.prompts: list[str] = []

    def run(self, prompt: str, worktree: Path, seconds: float) -> Ending:
        """Play the next act."""
        act = self._acts[min(len(self.prompts), len(self._acts) - 1)]
        self.prompts.append(prompt)
        return act(self._repository.worktrees[worktree])
