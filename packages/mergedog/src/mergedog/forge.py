"""The interface to a forge: what this program asks of one, and the few things it does there.

There is no method that merges.
"""

from typing import Protocol

from mergedog.records import Comment, Job, Pull, Review, Run
from mergedog.untrusted import Untrusted


class Forge(Protocol):
    """One repository on a forge.

    Every method raises a `ForgeError`. Those that act do so at most once, and are given commits or ids that were judged
    before, never "the head", so that a push in between changes nothing.
    """

    def me(self) -> str:
        """Return the login of the account that acts."""
        ...

    def pull(self, number: int) -> Pull:
        """Return a pull request as it is now."""
        ...

    def reviews(self, number: int) -> tuple[Review, ...]:
        """Return all reviews, oldest first."""
        ...

    def may_approve(self, login: str) -> bool:
        """Whether an account may write to the repository."""
        ...

    def comments(self, number: int) -> tuple[Comment, ...]:
        """Return all comments, oldest first."""
        ...

    def committer(self, sha: str) -> str:
        """Return the login that the forge has for the committer of a commit, empty if it knows none."""
        ...

    def runs(self, sha: str) -> tuple[Run, ...]:
        """Return all workflow runs at a commit, whatever started them."""
        ...

    def jobs(self, run: int) -> tuple[Job, ...]:
        """Return the jobs of the newest attempt of a run."""
        ...

    def log(self, job: int) -> Untrusted:
        """Return the end of the log of a job."""
        ...

    def incidents(self, label: str) -> tuple[int, ...]:
        """Return the numbers of open issues with a label."""
        ...

    def ref(self, name: str) -> str:
        """Return the commit of a ref such as `refs/tags/full/7`, empty if there is none."""
        ...

    def approve_run(self, run: int) -> None:
        """Let a run begin that waits for a maintainer."""
        ...

    def rerun_failed(self, run: int) -> None:
        """Run the failed jobs of a run again, as its next attempt."""
        ...

    def set_ref(self, name: str, sha: str) -> None:
        """Make a ref point at a commit, new or moved."""
        ...

    def comment(self, number: int, body: str) -> int:
        """Write a comment and return its id."""
        ...

    def edit_comment(self, comment: int, body: str) -> None:
        """Replace the text of a comment."""
        ...
