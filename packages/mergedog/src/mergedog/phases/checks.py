"""Phases that read the checks: all workflow runs of the head, whatever the forge says is required."""

from mergedog.records import Run, Who
from mergedog.session import NEXT, Again, Outcome, Session


def approve_waiting_runs(session: Session) -> Outcome:
    """Let runs begin that wait for a maintainer; they are runs of the trusted commit."""
    forge, head = session.world.forge, session.head
    session.runs = forge.runs(head)
    waiting = [run for run in session.runs if run.status == "approval" and run.sha == head]
    for run in waiting:
        session.act(
            f"approve:{run.id}:{run.attempt}",
            f"run approvals:{head}",
            session.policy.bounds.run_approvals,
            lambda run=run: forge.approve_run(run.id),
            f"approve run {run.workflow}",
        )
    return Again("runs may begin") if waiting else NEXT


def newest_runs(runs: tuple[Run, ...]) -> list[Run]:
    """Return the newest run of each workflow and event; older ones were superseded."""
    newest: dict[tuple[int, str], Run] = {}
    for run in sorted(runs, key=lambda run: (run.created, run.id)):
        newest[run.workflow_id, run.event] = run
    return list(newest.values())


def await_checks(session: Session) -> Outcome:
    """Wait until everything that should run has begun and ended.

    Right after a push nothing has started, and nothing failed either. So a head settles first, and the workflows that
    ran for an earlier head, or that the policy names, have to be there.
    """
    state, head, timing = session.state, session.head, session.policy.timing
    if head not in state.seen:
        state.seen[head] = session.now()
        session.save()
    age = session.now() - state.seen[head]
    if age < timing.settle_seconds:
        return session.wait(Who.CHECKS, "checks may still appear", timing.settle_seconds - age)
    missing = _missing(session)
    if missing and age < timing.missing_seconds:
        return session.wait(Who.CHECKS, f"{missing} has not begun")
    if missing:
        return session.wait(Who.MAINTAINER, f"{missing} did not begin")
    running = [run.workflow for run in newest_runs(session.runs) if run.status == "running"]
    if running:
        return session.wait(Who.CHECKS, f"{running[0]} runs" + (f", and {len(running) - 1} more" * (len(running) > 1)))
    _remember_workflows(session)
    return NEXT


def _missing(session: Session) -> str:
    """Return a workflow that ought to be there and is not, empty if all are."""
    present = {run.workflow for run in session.runs}
    if not present:
        return "any check"
    wanted = [*session.policy.checks.required, *session.state.workflows]
    return next((name for name in wanted if name not in present), "")


def _remember_workflows(session: Session) -> None:
    """Note what ran, without what only the full run starts."""
    state = session.state
    asked = state.full.get(session.head)
    ran = {run.workflow for run in session.runs if asked is None or run.created < asked}
    ran -= set(session.policy.full.workflows)
    if not ran <= set(state.workflows):
        state.workflows = sorted(ran | set(state.workflows))
        session.save()
