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
    return _merge(session, base)


def _merge(session: Session, base: str) -> Outcome:
    state, pull, limit = session.state, session.pull, session.policy.bounds.merges
    group, action = f"merges:{session.approval}", f"merge:{session.head}:{base}"
    if action not in state.begun and state.counts.get(group, 0) >= limit:
        raise BoundReached(f"merges: the limit of {limit} is reached")
    try:
        sha = session.world.repository.merge_base_into(pull.head, pull.base_branch, f"Merge branch {pull.base_branch}")
    except Conflict:
        return ask_for_merge(session)
    state.begin(action, group, limit)
    push_commit(session, sha, f"merge of {pull.base_branch}")
    state.finish(action, "the base branch is merged")
    return Again("the base branch is merged")
