"""Last phases: the full run, one summary comment, and the wait for a human who merges."""

from mergedog.phases.summary import marker, summary
from mergedog.records import Comment, Who
from mergedog.session import NEXT, Again, Outcome, Session


def request_full_run(session: Session) -> Outcome:
    """Point the ref of the full run at the exact head, and wait for what that starts."""
    full, state, head = session.policy.full, session.state, session.head
    if not full.ref:
        return NEXT
    if head not in state.full:
        return _point(session, full.ref.replace("{number}", str(session.pull.number)))
    age = session.now() - state.full[head]
    timing = session.policy.timing
    if age < timing.settle_seconds:
        return session.wait(Who.CHECKS, "the full run may still appear", timing.settle_seconds - age)
    missing = _missing(session, full.workflows)
    if not missing:
        return NEXT
    if age < timing.missing_seconds:
        return session.wait(Who.CHECKS, f"{missing} has not begun")
    return session.wait(Who.MAINTAINER, f"{missing} did not begin")


def _point(session: Session, ref: str) -> Outcome:
    forge, state, head = session.world.forge, session.state, session.head
    if forge.ref(ref) != head:
        group, limit = f"full runs:{session.approval}", session.policy.bounds.full_runs
        session.act(f"full:{head}", group, limit, lambda: forge.set_ref(ref, head), "ask for the full run")
    else:
        state.finish(f"full:{head}", "ask for the full run")
    state.full[head] = session.now()
    session.save()
    return Again("the full run is asked for")


def _missing(session: Session, workflows: tuple[str, ...]) -> str:
    present = {run.workflow for run in session.runs}
    if workflows:
        return next((name for name in workflows if name not in present), "")
    return "" if any(run.workflow not in session.state.workflows for run in session.runs) else "the full run"


def hand_over(session: Session) -> Outcome:
    """Keep one summary comment up to date; a human merges."""
    forge, text = session.world.forge, summary(session)
    mine = _own_comment(session, forge.comments(session.pull.number))
    if mine is None and not session.state.comment:
        session.act("comment", "comments", 1, lambda: _write(session, text), "comment: ready for a human")
        return Again("the summary is written")
    if mine is not None and not mine.body.contains(marker(session)):
        return _edit(session, mine, text)
    return session.wait(Who.MAINTAINER, "green: a human merges")


def _own_comment(session: Session, comments: tuple[Comment, ...]) -> Comment | None:
    me, hidden = session.world.forge.me(), marker(session, content=False)
    return next((comment for comment in comments if comment.author == me and comment.body.contains(hidden)), None)


def _write(session: Session, text: str) -> None:
    session.state.comment = session.world.forge.comment(session.pull.number, text)


def _edit(session: Session, mine: Comment, text: str) -> Outcome:
    """Replace the summary; where the limit is reached it stays as it is."""
    state, limit = session.state, session.policy.bounds.comment_edits
    group, action = "comment edits", f"edit:{session.head}"
    if state.counts.get(group, 0) >= limit and action not in state.begun:
        return session.wait(Who.MAINTAINER, "green, but the summary has been edited as often as allowed")
    edit = session.world.forge.edit_comment
    session.act(action, group, limit, lambda: edit(mine.id, text), "edit comment: ready for a human")
    return Again("the summary is up to date")
