"""The one comment: what was checked, what was judged spurious and why, and each session of the agent."""

import hashlib

from mergedog.phases.checks import newest_runs
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
    spurious = state.spurious.get(head, {})
    opening = "Checks passed" if not spurious else "Checks passed but for failures judged spurious"
    lines = [f"**{opening}; a human can merge.** Head `{head[:12]}`: {state.trusted[head].why}.", ""]
    runs = newest_runs(session.runs)
    lines.append(f"- {len(runs)} workflow runs: {', '.join(sorted(run.workflow for run in runs))}")
    lines += [f"- spurious: `{job}`: {reason}" for job, reason in sorted(spurious.items())]
    lines += [
        f"- agent, {entry.task} at `{entry.head[:12]}`: {entry.outcome}" + (f" ({entry.note})" if entry.note else "")
        for entry in state.sessions
    ]
    return "\n".join(lines)
