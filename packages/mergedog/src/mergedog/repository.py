"""The interface to the objects: commits, trees, worktrees for agents, and the push."""

from pathlib import Path
from typing import Protocol

from mergedog.records import Patch, Pull, Work


class Repository(Protocol):
    """A clone of the repository, with the branch of the pull request.

    Commits are named by their content, so that what it tells of a commit is true whatever a forge says.
    """

    def fetch(self, pull: Pull) -> None:
        """Bring the head and the base branch of a pull request."""
        ...

    def tree(self, sha: str) -> str:
        """Return the tree of a commit."""
        ...

    def lineage(self, head: str, base_branch: str) -> tuple[Patch, ...]:
        """Return the commits of `head` that are not on the base branch, oldest first."""
        ...

    def on_base(self, sha: str, base_branch: str) -> bool:
        """Whether a commit is on the base branch."""
        ...

    def base_time(self, head: str, base_branch: str) -> float:
        """Return when the newest commit that `head` shares with the base branch was made."""
        ...

    def merge_base_into(self, head: str, base_branch: str, message: str) -> str:
        """Return a new merge commit of `head` and the base branch; raise `Conflict` where people must decide."""
        ...

    def worktree(self, head: str, base_branch: str, conflicted: bool) -> Path:
        """Return a fresh worktree for an agent: one commit that has all of the pull request, without its history.

        If `conflicted`, the base branch is merged on top, with conflict markers left in the files.
        """
        ...

    def work(self, worktree: Path) -> tuple[Work, ...]:
        """Return the commits that an agent made, oldest first."""
        ...

    def replay(self, work: Work, worktree: Path, parents: tuple[str, ...], message: str) -> str:
        """Return a new commit with the tree of an agent's commit on trusted parents, with a message of ours."""
        ...

    def base_head(self, base_branch: str) -> str:
        """Return the head of the base branch as it was fetched."""
        ...

    def discard(self, worktree: Path) -> None:
        """Remove a worktree."""
        ...

    def push(self, pull: Pull, sha: str, expected: str) -> None:
        """Move the branch of a pull request from `expected` to `sha`; raise `Diverged` if it is elsewhere."""
        ...
