"""First phases: is there something to do, who approved what, and is the head trusted?"""

from mergedog.phases.push import push_commit
from mergedog.records import Review, Who
from mergedog.session import NEXT, Again, Done, Outcome, Session
from mergedog.state import Approval
from mergedog.trust import Distrusted, commit_record, judge_head, standing_approvals


def check_open(session: Session) -> Outcome:
    """End when a human has merged or closed the pull request."""
    pull = session.pull
    if pull.merged:
        return Done("a human merged it")
    if not pull.open:
        return Done("it was closed")
    if pull.draft:
        return session.wait(Who.AUTHOR, "it is a draft")
    return NEXT


def park(session: Session) -> Outcome:
    """Do nothing during an incident."""
    label = session.policy.parking.label
    incidents = session.world.forge.incidents(label) if label else ()
    if incidents:
        return session.wait(Who.INFRASTRUCTURE, f"parked: incident #{incidents[0]} is open")
    return NEXT


def settle_approval(session: Session) -> Outcome:
    """Take the newest approval of a maintainer for what is trusted; it begins new budgets."""
    forge, pull, state = session.world.forge, session.pull, session.state
    approvals, objections = standing_approvals(forge.reviews(pull.number), pull, forge.me())
    if any(_counts(session, name) for name in objections):
        return session.wait(Who.AUTHOR, "a maintainer asks for changes")
    counting = [review for review in approvals if _counts(session, review.author)]
    if not counting:
        return session.wait(Who.MAINTAINER, "no approval of a maintainer stands")
    newest = counting[-1]
    if state.approval is None or newest.at > state.approval.at:
        return _take(session, newest)
    return NEXT


def _counts(session: Session, login: str) -> bool:
    maintainers = session.policy.trust.maintainers
    return login in maintainers if maintainers else session.world.forge.may_approve(login)


def _take(session: Session, review: Review) -> Outcome:
    """Trust the approved commit, if it is the head that we see."""
    state, pull = session.state, session.pull
    if review.sha != pull.head and review.sha not in state.trusted:
        return session.wait(Who.MAINTAINER, "halted: the head is not the commit that was approved")
    session.world.repository.fetch(pull)
    base = pull.base_branch
    state.approval = Approval(review.sha, review.author, review.at)
    state.workflows = []  # what was approved may have other ones
    if review.sha not in state.trusted:
        why = f"approved by {review.author}"
        state.trusted[review.sha] = commit_record(review.sha, why, session.world.repository, base)
    state.log.append(f"trust {review.sha}: approved by {review.author}")
    session.save()
    return NEXT


def judge_text(session: Session) -> Outcome:
    """Halt if title or description, which become the commit message, changed after the approval."""
    approval = session.state.approval
    if approval is not None and session.pull.edited >= approval.at:
        return session.wait(Who.MAINTAINER, "halted: title or description changed after the approval")
    return NEXT


def verify_head(session: Session) -> Outcome:
    """Go on with a trusted head alone."""
    state, pull, world = session.state, session.pull, session.world
    if state.pending is not None and state.pending.sha == pull.head:
        _confirm_push(session)
    if (lag := _lag(session)) > 0:
        return session.wait(Who.INFRASTRUCTURE, "the forge does not show our push yet", lag)
    if pull.head not in state.trusted:
        world.repository.fetch(pull)
    base, bot = pull.base_branch, session.policy.trust.rebase_bot
    verdict = judge_head(pull.head, state, world.forge, world.repository, base, bot)
    if isinstance(verdict, Distrusted):
        return session.wait(Who.MAINTAINER, f"halted: the head is not trusted: {verdict.why}")
    if pull.head not in state.trusted:
        state.trusted[pull.head] = commit_record(pull.head, verdict.why, world.repository, base)
        state.log.append(f"trust {pull.head}: {verdict.why}")
        session.save()
    return _push_pending(session)


def _push_pending(session: Session) -> Outcome:
    """Push what was about to be pushed when we stopped, if it still belongs on this head."""
    pending = session.state.pending
    if pending is None:
        return NEXT
    if pending.parent == session.head:
        push_commit(session, pending.sha, pending.why)
        return Again("the commit that was begun is pushed")
    session.state.pending = None
    session.save()
    return NEXT


def _confirm_push(session: Session) -> None:
    """Note that the head is the commit that we were about to push when we stopped."""
    state, pending = session.state, session.state.pending
    assert pending is not None
    state.trusted[pending.sha] = commit_record(
        pending.sha, pending.why, session.world.repository, session.pull.base_branch
    )
    state.pushed, state.pending = pending.sha, None
    state.log.append(f"push {pending.sha}: {pending.why}")
    session.save()


def _lag(session: Session) -> float:
    """Return for how long to wait while the forge still shows the parent of what we pushed."""
    state, head = session.state, session.head
    if not state.pushed or state.pushed == head or head not in state.trusted:
        return 0.0
    since = state.seen.get(state.pushed, 0.0)
    return max(0.0, since + session.policy.timing.settle_seconds - session.now())
