"""What a forge and a repository tell: frozen records.

Names that were parsed (`mergedog.identifiers`) are `str`; free text of outsiders is `Untrusted`. Times are seconds
since the epoch.
"""

from dataclasses import dataclass
from enum import Enum

from mergedog.untrusted import Untrusted


@dataclass(frozen=True, slots=True)
class Pull:
    """A pull request as it is now; `edited` is when title or description last changed, 0 if never."""

    number: int
    title: Untrusted
    body: Untrusted
    author: str
    head: str
    head_branch: str
    head_repository: str
    base_branch: str
    open: bool
    merged: bool
    draft: bool
    created: float
    edited: float


class Judgement(Enum):
    """What a review says."""

    APPROVED = "approved"
    CHANGES_REQUESTED = "changes requested"
    DISMISSED = "dismissed"
    COMMENTED = "commented"


@dataclass(frozen=True, slots=True)
class Review:
    """A review, and the commit that the reviewer saw."""

    author: str
    judgement: Judgement
    sha: str
    at: float


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment on the pull request; `updated` is when its text last changed."""

    id: int
    author: str
    body: Untrusted
    updated: float


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a workflow at one commit.

    `workflow` is a name for people, which two workflows may share; `workflow_id` tells them apart. `status` is one of
    `approval` (waits for a maintainer), `running` (or queued), `passed` and `failed`.
    """

    id: int
    workflow: str
    workflow_id: int
    event: str
    sha: str
    status: str
    attempt: int
    created: float


@dataclass(frozen=True, slots=True)
class Job:
    """One job of the newest attempt of a run; `conclusion` is the forge's word for how it ended."""

    id: int
    name: str
    failed: bool
    conclusion: str


@dataclass(frozen=True, slots=True)
class Patch:
    """A commit between the base branch and a head: what it changes, independent of where it is applied."""

    sha: str
    patch_id: str
    parents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """What an agent's commit does to one path; `mode` is git's, `000000` for a deletion."""

    path: str
    mode: str


@dataclass(frozen=True, slots=True)
class Work:
    """A commit that an agent made in its worktree."""

    sha: str
    message: Untrusted
    changes: tuple[Change, ...]


class Who(Enum):
    """Who can unblock a pull request that waits."""

    AUTHOR = "author"
    MAINTAINER = "maintainer"
    CHECKS = "checks"
    INFRASTRUCTURE = "infrastructure"
    HARNESS = "mergedog"
    NOBODY = "nobody"
