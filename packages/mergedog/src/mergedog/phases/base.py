"""The phase that keeps the base young: checks against an old base say little."""

from mergedog.errors import BoundReached, Conflict
from mergedog.phases.push import push_commit
from mergedog.phases.repair import ask_for_merge
from mergedog.session import NEXT, Again, Outcome, Session

DAY = 86400.0


def refresh_base(session: Session) -> Outcome:
    """Merge the base branch if the newest commit shared with it is too old."""
    repository, pull = session.world.repository, session.pull
    shared = repository.base_time(pull.head, pull.base_branch)
    if session.now() - shared <= session.policy.timing.base_days * DAY:
        return NEXT
    repository.fetch(pull)
    base = repository.base_head(pull.base_branch)
    if repository.base_time(base, pull.base_branch) <= shared:
        return NEXT  # the base branch itself is that old
    group = f"merges:{session.approval}"
    if session.state.counts.get(group, 0) >= session.policy.bounds.merges:
        raise BoundReached(f"merges: the limit of {session.policy.bounds.merges} is reached")
    message = f"Merge branch {pull.base_branch}"
    try:
        sha = repository.merge_base_into(pull.head, pull.base_branch, message)
    except Conflict:
        return ask_for_merge(session)
    session.spend(group, session.policy.bounds.merges)
    push_commit(session, sha, f"merge of {pull.base_branch}")
    return Again("the base branch is merged")
