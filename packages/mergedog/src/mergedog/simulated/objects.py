"""Commits in memory: trees of texts, ancestors, patches and three-way merges."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from mergedog.errors import Conflict, RepositoryError

Files = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SimCommit:
    """A commit: its files as sorted pairs, and who committed it when."""

    sha: str
    parents: tuple[str, ...]
    content: tuple[tuple[str, str], ...]
    message: str
    committer: str
    time: float

    @property
    def files(self) -> dict[str, str]:
        """Text by path."""
        return dict(self.content)


def digest(*parts: object) -> str:
    """Return 40 hexadecimal digits of what is given."""
    return hashlib.sha1(repr(parts).encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()


@dataclass(slots=True)
class Objects:
    """All commits that anybody has made."""

    commits: dict[str, SimCommit] = field(default_factory=dict[str, SimCommit])

    def add(self, parents: tuple[str, ...], files: Files, message: str, committer: str, time: float) -> str:
        """Make a commit and return its name."""
        content = tuple(sorted(files.items()))
        sha = digest(parents, content, message, committer, time)
        self.commits[sha] = SimCommit(sha, parents, content, message, committer, time)
        return sha

    def __getitem__(self, sha: str) -> SimCommit:
        if sha not in self.commits:
            raise RepositoryError("there is no such commit")
        return self.commits[sha]

    def tree(self, sha: str) -> str:
        """Return the digest of the files of a commit."""
        return digest(self[sha].content)

    def ancestors(self, sha: str) -> list[str]:
        """Return a commit and its ancestors, parents first."""
        order: dict[str, None] = {}
        stack = [(sha, False)]
        while stack:
            name, ready = stack.pop()
            if ready:
                order[name] = None
            elif name not in order:
                stack.append((name, True))
                stack.extend((parent, False) for parent in self[name].parents)
        return list(order)

    def merge_base(self, one: str, other: str) -> str:
        """Return the newest commit that both have."""
        shared = set(self.ancestors(other))
        common = [name for name in self.ancestors(one) if name in shared]
        if not common:
            raise RepositoryError("the commits share no history")
        return max(common, key=lambda name: (self[name].time, common.index(name)))

    def patch_id(self, sha: str) -> str:
        """Return a digest of what a commit changes, whatever it is applied to; empty for merges and roots."""
        commit = self[sha]
        if len(commit.parents) != 1:
            return ""
        return digest(sorted(changes(self[commit.parents[0]].files, commit.files)))

    def merged(self, one: str, other: str) -> dict[str, str]:
        """Return the files of a three-way merge, or raise `Conflict`."""
        base = self[self.merge_base(one, other)].files
        ours, theirs = self[one].files, self[other].files
        result: dict[str, str] = {}
        for path in sorted({*base, *ours, *theirs}):
            before, mine, yours = base.get(path), ours.get(path), theirs.get(path)
            if mine != before and yours != before and mine != yours:
                raise Conflict("the branches conflict")
            chosen = yours if mine == before else mine
            if chosen is not None:
                result[path] = chosen
        return result


def changes(before: Files, after: Files) -> Iterator[tuple[str, str, str]]:
    """Yield path, old and new text of each difference; a missing file has no text."""
    for path in {*before, *after}:
        if before.get(path) != after.get(path):
            yield path, before.get(path, ""), after.get(path, "")
