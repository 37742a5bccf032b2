"""A real origin, with a base branch and the branch of a pull request, and the hub that mirrors it."""

import os
import subprocess
from pathlib import Path

from mergedog.git import GitRepository, environment
from mergedog.records import Pull
from mergedog.simulated.hub import BOT, Hub
from mergedog.simulated.objects import SimCommit
from mergedog.untrusted import Untrusted

BASE_TIME = 1_699_990_000


class Origin:
    """A bare repository, and a clone of the author's."""

    def __init__(self, folder: Path) -> None:
        self.bare, self.clone = folder / "acme" / "widgets.git", folder / "author"
        self.remote = str(folder / "{repository}.git")
        self.bare.mkdir(parents=True)
        self.clone.mkdir()
        self.git("init", "-q", "--bare", "-b", "main", ".", at=self.bare)
        self.git("init", "-q", "-b", "main", ".")
        self.git("remote", "add", "origin", str(self.bare))
        self.base = self.commit({"lib.py": "x = 1\n", "README": "hello\n"}, "Begin")
        self.git("push", "-q", "origin", "main")
        self.git("checkout", "-q", "-b", "topic-1")
        self.head = self.commit({"y1.py": "y = 1\n"}, "Add y")
        self.git("push", "-q", "origin", "topic-1")

    def git(self, *arguments: str, at: Path | None = None, by: str = "ann", when: int = BASE_TIME) -> str:
        own = environment({"PATH": os.environ["PATH"]})
        own |= {f"GIT_{role}_NAME": by for role in ("AUTHOR", "COMMITTER")}
        own |= {f"GIT_{role}_DATE": f"{when} +0000" for role in ("AUTHOR", "COMMITTER")}
        done = subprocess.run(["git", *arguments], cwd=at or self.clone, env=own, capture_output=True, check=True)
        return done.stdout.decode().strip()

    def commit(self, files: dict[str, str], message: str, when: int = BASE_TIME) -> str:
        for path, text in files.items():
            (self.clone / path).parent.mkdir(parents=True, exist_ok=True)
            (self.clone / path).write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message, when=when)
        return self.git("rev-parse", "HEAD")

    def advance_base(self, files: dict[str, str], when: int = BASE_TIME + 100) -> str:
        branch = self.git("rev-parse", "--abbrev-ref", "HEAD")
        self.git("checkout", "-q", "main")
        sha = self.commit(files, "Advance", when)
        self.git("push", "-q", "origin", "main")
        self.git("checkout", "-q", branch)
        return sha

    def branch_head(self, branch: str = "topic-1") -> str:
        return self.git("rev-parse", f"refs/heads/{branch}", at=self.bare)

    def files(self, sha: str) -> dict[str, str]:
        names = self.git("ls-tree", "-r", "--name-only", sha, at=self.bare).splitlines()
        return {name: self.git("show", f"{sha}:{name}", at=self.bare) + "\n" for name in names}

    def pull(self, head: str = "") -> Pull:
        return Pull(
            number=1,
            title=Untrusted("Add y", "title"),
            body=Untrusted("", "description"),
            author="ann",
            head=head or self.head,
            head_branch="topic-1",
            head_repository="acme/widgets",
            base_branch="main",
            open=True,
            merged=False,
            draft=False,
            created=0.0,
            edited=0.0,
        )

    def repository(self, folder: Path) -> GitRepository:
        return GitRepository(folder / "clone.git", self.remote, "acme/widgets")


class MirroredRepository(GitRepository):
    """A real repository, whose pushes the hub hears of, as a forge does."""

    def __init__(self, origin: Origin, hub: Hub, folder: Path) -> None:
        super().__init__(folder / "clone.git", origin.remote, "acme/widgets")
        self._origin, self._hub = origin, hub

    def push(self, pull: Pull, sha: str, expected: str) -> None:
        super().push(pull, sha, expected)
        mirror(self._origin, self._hub, sha, BOT)
        self._hub.move(pull.number, sha, BOT)
        self._hub.acts.append(f"push {self._hub.objects[sha].message}")


def mirror(origin: Origin, hub: Hub, sha: str, by: str) -> None:
    """Tell the hub of a commit of the origin."""
    parents = tuple(origin.git("show", "-s", "--format=%P", sha, at=origin.bare).split())
    message = origin.git("show", "-s", "--format=%s", sha, at=origin.bare)
    content = tuple(sorted(origin.files(sha).items()))
    hub.objects.commits[sha] = SimCommit(sha, parents, content, message, by, hub.now())
