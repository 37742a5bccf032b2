"""The in-memory repository, and worktrees in memory for simulated agents."""

from dataclasses import dataclass, field
from pathlib import Path

from mergedog.errors import Conflict, Diverged
from mergedog.records import Change, Patch, Pull, Work
from mergedog.simulated.hub import BOT, Hub
from mergedog.simulated.objects import Files, changes
from mergedog.untrusted import Untrusted


@dataclass(slots=True)
class SimWorktree:
    """What an agent sees: the files, and the commits that it makes of them."""

    files: dict[str, str]
    commits: list[tuple[str, dict[str, str]]] = field(default_factory=list[tuple[str, dict[str, str]]])

    def commit(self, message: str, change: Files) -> None:
        """Commit a change."""
        before = self.commits[-1][1] if self.commits else self.files
        self.commits.append((message, {**before, **change}))


class SimRepository:
    """A clone of the hub's objects."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self.worktrees: dict[Path, SimWorktree] = {}

    def fetch(self, pull: Pull) -> None:
        """Objects are in memory."""

    def _base(self, branch: str) -> str:
        return self._hub.refs[f"refs/heads/{branch}"]

    def base_head(self, base_branch: str) -> str:
        """Return the head of the base branch."""
        return self._base(base_branch)

    def tree(self, sha: str) -> str:
        """Return the tree of a commit."""
        return self._hub.objects.tree(sha)

    def lineage(self, head: str, base_branch: str) -> tuple[Patch, ...]:
        """Return the commits that are not on the base branch, oldest first."""
        objects = self._hub.objects
        base = set(objects.ancestors(self._base(base_branch)))
        names = [name for name in objects.ancestors(head) if name not in base]
        return tuple(Patch(name, objects.patch_id(name), objects[name].parents) for name in names)

    def on_base(self, sha: str, base_branch: str) -> bool:
        """Whether a commit is on the base branch."""
        return sha in self._hub.objects.ancestors(self._base(base_branch))

    def base_time(self, head: str, base_branch: str) -> float:
        """Return the time of the newest shared commit."""
        objects = self._hub.objects
        return objects[objects.merge_base(head, self._base(base_branch))].time

    def merge_base_into(self, head: str, base_branch: str, message: str) -> str:
        """Return a merge commit, or raise `Conflict`."""
        base = self._base(base_branch)
        files = self._hub.objects.merged(head, base)
        return self._hub.objects.add((head, base), files, message, BOT, self._hub.now())

    def worktree(self, head: str, base_branch: str, conflicted: bool) -> Path:
        """Return a worktree; of a conflicted merge, files that conflict have both texts."""
        files = dict(self._hub.objects[head].files)
        if conflicted:
            files = self._conflicted(head, self._base(base_branch))
        path = Path(f"/simulated/{len(self.worktrees)}")
        self.worktrees[path] = SimWorktree(files)
        return path

    def _conflicted(self, head: str, base: str) -> dict[str, str]:
        objects = self._hub.objects
        try:
            return objects.merged(head, base)
        except Conflict:
            ours, theirs = objects[head].files, objects[base].files
            both = {
                path: f"<<<<<<< ours\n{ours[path]}=======\n{theirs[path]}>>>>>>> theirs\n"
                for path in ours.keys() & theirs.keys()
                if ours[path] != theirs[path]
            }
            return {**theirs, **ours, **both}

    def work(self, worktree: Path) -> tuple[Work, ...]:
        """Return the commits that an agent made."""
        tree = self.worktrees[worktree]
        made: list[Work] = []
        before = tree.files
        for place, (message, files) in enumerate(tree.commits):
            changed = tuple(Change(path, "100644") for path, _, _ in sorted(changes(before, files)))
            made.append(Work(str(place), Untrusted(message, "agent"), changed))
            before = files
        return tuple(made)

    def replay(self, work: Work, worktree: Path, parents: tuple[str, ...], message: str) -> str:
        """Return a commit of ours with the tree of the agent's commit."""
        files = self.worktrees[worktree].commits[int(work.sha)][1]
        return self._hub.objects.add(parents, files, message, BOT, self._hub.now())

    def discard(self, worktree: Path) -> None:
        """Forget a worktree."""
        self.worktrees[worktree] = SimWorktree({})

    def push(self, pull: Pull, sha: str, expected: str) -> None:
        """Move the branch, unless somebody moved it."""
        head = self._hub.head(pull.number)
        if head == sha:
            return
        if head != expected:
            raise Diverged("the branch is not where it was")
        self._hub.move(pull.number, sha, BOT)
        self._hub.acts.append(f"push {self._hub.objects[sha].message}")
