"""Which heads are trusted: a list of transitions, and nothing else is.

| transition | a head is trusted if |
|---|---|
| approved | a maintainer approved this very commit |
| ours | it is a commit that this program made and recorded before it pushed |
| rebased | its commits have, one by one, the patch ids of a trusted head, and a bot that is trusted has rebased them |

The last one asks that the bot is committer of each commit, and that the first one's parent is on the base branch.
Anything else halts until a maintainer approves it.
"""

from dataclasses import dataclass

from mergedog.forge import Forge
from mergedog.records import Judgement, Patch, Pull, Review
from mergedog.repository import Repository
from mergedog.state import State, TrustedCommit

REBASED_COMMITS = 50


@dataclass(frozen=True, slots=True)
class Trusted:
    """The head is trusted, by this transition."""

    why: str


@dataclass(frozen=True, slots=True)
class Distrusted:
    """The head is not trusted, for this reason."""

    why: str


Verdict = Trusted | Distrusted


def standing_approvals(reviews: tuple[Review, ...], pull: Pull, me: str) -> tuple[list[Review], list[str]]:
    """Return the approvals that stand, oldest first, and the reviewers who ask for changes.

    The last judgement of each reviewer counts. Authors do not approve their own pull request, and neither does this
    program.
    """
    last: dict[str, Review] = {}
    for review in reviews:
        if review.judgement is not Judgement.COMMENTED and review.author not in (pull.author, me):
            last[review.author] = review
    approvals = [review for review in last.values() if review.judgement is Judgement.APPROVED]
    objections = [name for name, review in last.items() if review.judgement is Judgement.CHANGES_REQUESTED]
    return sorted(approvals, key=lambda review: review.at), objections


def judge_head(head: str, state: State, forge: Forge, repository: Repository, base: str, bot: str) -> Verdict:
    """Return whether a head is trusted."""
    if state.approval is None:
        return Distrusted("nobody has approved it")
    known = state.trusted.get(head)
    if known is not None:
        if repository.tree(head) != known.tree:
            return Distrusted("its tree is not the recorded one")
        return Trusted(known.why)
    if bot and _is_rebase(repository.lineage(head, base), state, repository, base):
        return _judge_committers(repository.lineage(head, base), forge, bot)
    return Distrusted("it is neither the approved commit, nor ours, nor a rebase of these")


def _is_rebase(lineage: tuple[Patch, ...], state: State, repository: Repository, base: str) -> bool:
    if not 0 < len(lineage) <= REBASED_COMMITS or any(len(patch.parents) != 1 for patch in lineage):
        return False
    patches = [patch.patch_id for patch in lineage]
    if not any(known.patches == patches for known in state.trusted.values()):
        return False
    return repository.on_base(lineage[0].parents[0], base)


def _judge_committers(lineage: tuple[Patch, ...], forge: Forge, bot: str) -> Verdict:
    for patch in lineage:
        if forge.committer(patch.sha) != bot:
            return Distrusted("it is a rebase, but its committer is not the trusted bot")
    return Trusted(f"rebased by {bot}")


def commit_record(sha: str, why: str, repository: Repository, base: str) -> TrustedCommit:
    """Return what is remembered of a trusted commit."""
    patches = [patch.patch_id for patch in repository.lineage(sha, base) if len(patch.parents) == 1]
    return TrustedCommit(repository.tree(sha), why, patches)
