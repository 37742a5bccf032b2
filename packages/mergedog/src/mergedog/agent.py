"""The agent: a command that is handed a prompt file and a worktree, and may make one commit there.

It has no credentials and no remote. It answers with a commit whose subject begins with the tag, or with a file that
says why the failures are spurious. The harness judges the commit, makes one of its own of it, and pushes that.
"""

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Protocol

from mergedog.policy import AgentRules
from mergedog.records import Change, Work
from mergedog.untrusted import Untrusted

LINK_MODES = ("120000", "160000")  # symbolic links and submodules reach outside of the tree


class How(Enum):
    """How a run of the command ended."""

    FINISHED = "finished"
    FAILED = "failed"
    HUNG = "hung"
    MEDDLED = "meddled"


@dataclass(frozen=True, slots=True)
class Ending:
    """How the agent ended, and why the failures are spurious if it says so."""

    how: How
    spurious: Untrusted | None = None


class Agent(Protocol):
    """Whoever repairs a worktree."""

    def run(self, prompt: str, worktree: Path, seconds: float) -> Ending:
        """Let the agent work for at most `seconds`."""
        ...


@dataclass(frozen=True, slots=True)
class Accepted:
    """The agent's one commit may be pushed."""

    work: Work


@dataclass(frozen=True, slots=True)
class Spurious:
    """The agent made no commit and says why none is needed."""

    reason: Untrusted


@dataclass(frozen=True, slots=True)
class Rejected:
    """What the agent did is of no use, for a reason of ours."""

    why: str


Judged = Accepted | Spurious | Rejected

ENDINGS = {
    How.FAILED: "the agent failed",
    How.HUNG: "the agent did not end in time",
    How.MEDDLED: "the agent wrote outside of its worktree",
}


def judge_work(ending: Ending, work: tuple[Work, ...], rules: AgentRules) -> Judged:
    """Return what the harness makes of a session."""
    if ending.how is not How.FINISHED:
        return Rejected(ENDINGS[ending.how])
    if not work:
        return Spurious(ending.spurious) if ending.spurious else Rejected("the agent made no commit and gave no reason")
    if ending.spurious:
        return Rejected("the agent made a commit and calls the failures spurious")
    first, *others = work
    if others:
        return Rejected(f"the agent made {len(work)} commits, and one is wanted")
    return _judge_commit(first, rules)


def _judge_commit(work: Work, rules: AgentRules) -> Judged:
    tag = rules.tag
    if not work.message[: len(tag)].contains(tag):
        return Rejected("the subject of the agent's commit does not begin with the tag")
    if not work.changes:
        return Rejected("the agent's commit changes nothing")
    if len(work.changes) > rules.files:
        return Rejected(f"the agent's commit touches {len(work.changes)} files, and {rules.files} is the limit")
    for change in work.changes:
        if why := _reaches_outside(change, rules):
            return Rejected(f"the agent's commit {why}")
    return Accepted(work)


def _reaches_outside(change: Change, rules: AgentRules) -> str:
    """Return what is wrong with a changed path, empty if nothing is."""
    parts = change.path.lower().split("/")
    if change.mode in LINK_MODES:
        return "makes a link"
    if change.path.startswith("/") or ".." in parts or ".git" in parts:
        return "writes outside of the tree"
    if any(change.path.lower().startswith(path.lower()) for path in rules.protected):
        return "touches a protected path"
    return ""
