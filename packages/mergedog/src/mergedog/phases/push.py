"""The push: recorded before it happens, so that a restart knows the commit for its own."""

from mergedog.session import Session
from mergedog.state import Pending
from mergedog.trust import commit_record


def push_commit(session: Session, sha: str, why: str) -> None:
    """Move the branch from the head that was judged to a commit of ours.

    The push names the head that it replaces: if somebody was faster, nothing happens, and their commit is judged.
    """
    state, pull, repository = session.state, session.pull, session.world.repository
    state.pending = Pending(sha, pull.head, why)
    session.save()
    repository.push(pull, sha, pull.head)
    state.trusted[sha] = commit_record(sha, why, repository, pull.base_branch)
    state.seen[sha] = session.now()
    state.pushed, state.pending = sha, None
    state.log.append(f"push {sha}: {why}")
    session.save()
