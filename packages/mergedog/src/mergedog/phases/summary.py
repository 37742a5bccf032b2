"""The one comment: what was checked, what was judged spurious and why, and each session of the agent."""

import hashlib

from mergedog.phases.checks import newest_runs
from mergedog.records import Run
from mergedog.session import Session


def marker(session: Session, content: bool = True) -> str:
    """Return the hidden mark by which the comment is found again; with `content`, that of this very text."""
    start = f"<!-- mergedog {session.state.repository}#{session.state.number} "
    return start + (hashlib.sha256(_lines(session).encode()).hexdigest()[:16] if content else "")


def summary(session: Session) -> str:
    """Return the text of the comment."""
    return f"{_lines(session)}\n\n{marker(session)} -->\n"


def _lines(session: Session) -> str:
    state, head = session.state, session.head
    runs = newest_runs(session.runs)
    spurious = _spurious(session, runs)
    opening = "Checks passed" if not spurious else "Checks passed but for failures judged spurious"
    lines = [f"**{opening}; a human can merge.** Head `{head[:12]}`: {state.trusted[head].why}.", ""]
    lines.append(f"- {len(runs)} workflow runs: {', '.join(sorted(run.workflow for run in runs))}")
    lines += [f"- spurious: `{job}`: {reason}" for job, reason in spurious]
    lines += [
        f"- agent, {entry.task} at `{entry.head[:12]}`: {entry.outcome}" + (f" ({entry.note})" if entry.note else "")
        for entry in state.sessions
    ]
    return "\n".join(lines)


def _spurious(session: Session, runs: list[Run]) -> list[tuple[str, str]]:
    """Return the failures that stand, and why they do not count."""
    standing = {f"{run.id}.{run.attempt}" for run in runs if run.status == "failed"}
    judged = session.state.spurious.get(session.head, {})
    found = [(key.split(":", 2), reason) for key, reason in judged.items()]
    return sorted((job, reason) for (attempt, _, job), reason in found if attempt in standing)
