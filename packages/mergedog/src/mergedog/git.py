"""git as a `Repository`: a bare clone of the harness's own, and agents' worktrees in repositories of theirs.

git runs without the user's configuration, hooks, or prompts. An agent's repository has no remote, and before the
harness reads it, everything in it that git would execute is removed.
"""

import base64
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mergedog import identifiers
from mergedog.errors import Conflict, Diverged, RepositoryError
from mergedog.records import Change, Patch, Pull, Work
from mergedog.secrets import Secret, scrub
from mergedog.untrusted import Untrusted

GIT_SECONDS = 600.0
NAME, EMAIL = "mergedog", "mergedog@localhost"
SAFE = (
    *("core.hooksPath=/dev/null", "core.fsmonitor=false", "protocol.ext.allow=never"),
    *("gc.auto=0", "commit.gpgSign=false", "merge.conflictStyle=merge", "core.attributesFile=/dev/null"),
)
ARMED = ("hooks", "info", "commondir", "modules", "worktrees", "objects/info")


@dataclass(frozen=True, slots=True)
class Git:
    """Runs git in one folder, with a clean environment and the settings of `SAFE`."""

    folder: Path
    environment: Mapping[str, str]

    def run(self, *arguments: str, stdin: bytes = b"", codes: Sequence[int] = (0,)) -> bytes:
        """Return what git prints, or raise `RepositoryError`, which names the command and not its output."""
        output = self.attempt(*arguments, stdin=stdin)
        if output.returncode not in codes:
            raise RepositoryError(f"git {arguments[0]} failed with {output.returncode}")
        return output.stdout

    def attempt(self, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        """Run git and return how it ended."""
        settings = [part for setting in SAFE for part in ("-c", setting)]
        done = None
        with suppress(OSError, subprocess.TimeoutExpired):
            done = subprocess.run(
                ["git", *settings, *arguments],
                cwd=self.folder,
                env=dict(self.environment),
                input=stdin,
                capture_output=True,
                check=False,
                timeout=GIT_SECONDS,
            )
        if done is None:
            raise RepositoryError(f"git {arguments[0]} could not be run")
        return done

    def text(self, *arguments: str, stdin: bytes = b"") -> str:
        """Return what git prints as one stripped text."""
        return self.run(*arguments, stdin=stdin).decode("utf-8", "replace").strip()


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return what git is given: a path, no home, our name."""
    own = {"PATH": os.defpath + os.pathsep + "/usr/local/bin", "HOME": "/nonexistent", "LC_ALL": "C"}
    for role in ("AUTHOR", "COMMITTER"):
        own |= {f"GIT_{role}_NAME": NAME, f"GIT_{role}_EMAIL": EMAIL}
    own |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_TERMINAL_PROMPT": "0"}
    return {**own, **(extra or {})}


def credentials(token: Secret, remote: str) -> dict[str, str]:
    """Return the variables by which git sends a token to one remote; it is in no argument and no file."""
    if not remote.startswith("https://"):
        return {}
    host = "/".join(remote.split("/")[:3])
    basic = base64.b64encode(f"x-access-token:{token.expose()}".encode()).decode()
    return {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"http.{host}/.extraHeader",
        "GIT_CONFIG_VALUE_0": f"Authorization: Basic {basic}",
    }


class GitRepository:
    """A bare clone in `folder`. `remote` has `{repository}` where the repository's name belongs."""

    def __init__(self, folder: Path, remote: str, name: str, token: Secret | None = None) -> None:
        self._folder, self._remote, self._name = folder, remote, name
        self._environment = environment(credentials(token, remote) if token else None)
        folder.mkdir(parents=True, exist_ok=True)
        self._git = Git(folder, self._environment)
        if not (folder / "HEAD").exists():
            self._git.run("init", "--quiet", "--bare", ".")

    def _url(self, name: str) -> str:
        return self._remote.replace("{repository}", identifiers.repository(name))

    def _base(self, branch: str) -> str:
        return f"refs/base/{identifiers.branch(branch)}"

    # ------------------------------------------------------------ commits

    def fetch(self, pull: Pull) -> None:
        """Bring the head and the base branch; both are kept under names of ours."""
        base = identifiers.branch(pull.base_branch)
        url, quiet = self._url(self._name), ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--force")
        self._git.run(*quiet, url, f"refs/heads/{base}:{self._base(base)}")
        if self._git.attempt("cat-file", "-e", f"{pull.head}^{{commit}}").returncode != 0:
            branch = identifiers.branch(pull.head_branch)
            self._git.run(*quiet, self._url(pull.head_repository), f"refs/heads/{branch}:refs/pull/{pull.number:d}")

    def base_head(self, base_branch: str) -> str:
        """Return the head of the base branch as it was fetched."""
        return self._git.text("rev-parse", "--verify", self._base(base_branch))

    def tree(self, sha: str) -> str:
        """Return the tree of a commit."""
        return self._git.text("rev-parse", "--verify", f"{identifiers.sha(sha)}^{{tree}}")

    def lineage(self, head: str, base_branch: str) -> tuple[Patch, ...]:
        """Return the commits that are not on the base branch, oldest first."""
        span = (identifiers.sha(head), f"^{self._base(base_branch)}")
        listed = self._git.text("rev-list", "--topo-order", "--reverse", "--parents", *span)
        patches: list[Patch] = []
        for line in listed.splitlines():
            sha, *parents = line.split()
            patches.append(Patch(sha, self._patch_id(sha) if len(parents) == 1 else "", tuple(parents)))
        return tuple(patches)

    def _patch_id(self, sha: str) -> str:
        """Return the patch id with white space counted: in Python it has a meaning."""
        shown = self._git.run("diff-tree", "--root", "--no-ext-diff", "--no-textconv", "--binary", "-p", sha)
        found = self._git.text("patch-id", "--verbatim", stdin=shown).split()
        return found[0] if found else ""

    def on_base(self, sha: str, base_branch: str) -> bool:
        """Whether a commit is on the base branch."""
        asked = ("merge-base", "--is-ancestor", identifiers.sha(sha), self._base(base_branch))
        return self._git.attempt(*asked).returncode == 0

    def base_time(self, head: str, base_branch: str) -> float:
        """Return when the newest commit was made that `head` shares with the base branch."""
        shared = self._git.text("merge-base", identifiers.sha(head), self._base(base_branch))
        return float(self._git.text("show", "--no-patch", "--format=%ct", shared))

    def merge_base_into(self, head: str, base_branch: str, message: str) -> str:
        """Return a merge commit, or raise `Conflict`."""
        base = self.base_head(base_branch)
        merged = self._git.attempt("merge-tree", "--write-tree", "--no-messages", identifiers.sha(head), base)
        if merged.returncode == 1:
            raise Conflict("the base branch conflicts with the pull request")
        if merged.returncode != 0:
            raise RepositoryError(f"git merge-tree failed with {merged.returncode}")
        return self._commit(merged.stdout.decode().split()[0], (head, base), message)

    def _commit(self, tree: str, parents: tuple[str, ...], message: str) -> str:
        """Make a commit and give it a name, so that it outlives a restart before the push."""
        chain = [part for parent in parents for part in ("-p", identifiers.sha(parent))]
        sha = self._git.text("commit-tree", identifiers.sha(tree), *chain, "-F", "-", stdin=message.encode())
        self._git.run("update-ref", f"refs/ours/{sha}", sha)
        return sha

    def push(self, pull: Pull, sha: str, expected: str) -> None:
        """Move the branch from `expected` to `sha`; raise `Diverged` if it is elsewhere."""
        url, branch = self._url(pull.head_repository), f"refs/heads/{identifiers.branch(pull.head_branch)}"
        there = self._git.text("ls-remote", url, branch).split()
        if there and there[0] == sha:
            return
        if not there or there[0] != expected:
            raise Diverged("the branch is not where it was")
        lease = f"--force-with-lease={branch}:{identifiers.sha(expected)}"
        pushed = self._git.attempt("push", "--quiet", "--no-verify", lease, url, f"{identifiers.sha(sha)}:{branch}")
        if pushed.returncode != 0:
            raise Diverged("the push was refused")

    # ------------------------------------------------------------ worktrees of agents

    def worktree(self, head: str, base_branch: str, conflicted: bool) -> Path:
        """Return a repository of its own with one commit: all of the pull request on top of nothing."""
        folder = Path(tempfile.mkdtemp(prefix="mergedog-"))
        tree = self._conflicted_tree(head, base_branch) if conflicted else self.tree(head)
        start = self._git.text("commit-tree", tree, "-F", "-", stdin=b"The pull request")
        name = f"refs/start/{folder.name}"
        self._git.run("update-ref", name, start)
        own = Git(folder, environment())
        own.run("init", "--quiet", "--initial-branch=work", ".")
        own.run("config", "user.name", NAME)
        own.run("config", "user.email", EMAIL)
        own.run("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", str(self._folder), f"{name}:refs/heads/start")
        own.run("checkout", "--quiet", "-B", "work", start)
        self._write_start(folder, start)
        return folder

    def _conflicted_tree(self, head: str, base_branch: str) -> str:
        """Return the tree of a merge, with conflict markers."""
        merge = ("merge-tree", "--write-tree", "--no-messages", identifiers.sha(head), self._base(base_branch))
        return self._git.run(*merge, codes=(0, 1)).decode().split()[0]

    def _write_start(self, folder: Path, start: str) -> None:
        """Remember outside of the worktree where the agent began."""
        (self._folder / f"start-{folder.name}").write_text(start, encoding="ascii")

    def _start(self, folder: Path) -> str:
        return identifiers.sha((self._folder / f"start-{folder.name}").read_text(encoding="ascii"))

    def work(self, worktree: Path) -> tuple[Work, ...]:
        """Bring the agent's commits into the clone, and return them, oldest first."""
        start = self._start(worktree)
        disarm(worktree / ".git")
        fetched = self._git.attempt(
            "-c",
            "protocol.file.allow=always",
            "-c",
            "safe.directory=*",
            *("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--force", "--no-recurse-submodules"),
            str(worktree),
            f"HEAD:refs/agent/{worktree.name}",
        )  # fmt: skip - one argument a line says nothing
        if fetched.returncode != 0:
            return ()
        names = self._git.text("rev-list", "--reverse", f"refs/agent/{worktree.name}", f"^{start}").split()
        return tuple(self._work(sha) for sha in names)

    def _work(self, sha: str) -> Work:
        message = self._git.run("show", "--no-patch", "--format=%B", sha).decode("utf-8", "replace")
        raw = self._git.run("diff-tree", "-r", "-z", "--no-renames", "--no-commit-id", "--root", sha)
        fields = raw.decode("utf-8", "surrogateescape").split("\0")
        changes = [
            Change(path, status.split()[1]) for status, path in zip(fields[::2], fields[1::2], strict=False) if status
        ]
        return Work(sha, Untrusted(scrub(message), "agent"), tuple(changes))

    def replay(self, work: Work, worktree: Path, parents: tuple[str, ...], message: str) -> str:
        """Return a commit of ours with the tree of the agent's commit, whose parent was the start."""
        parent = self._git.text("rev-list", "--parents", "--max-count=1", work.sha).split()[1:]
        if parent != [self._start(worktree)]:
            raise RepositoryError("the agent's commit is not on the commit that it was given")
        return self._commit(self.tree(work.sha), parents, message)

    def discard(self, worktree: Path) -> None:
        """Remove a worktree, and what names it."""
        shutil.rmtree(worktree, ignore_errors=True)
        for name in ("start", "work"):
            self._git.attempt("update-ref", "-d", f"refs/{name}/{worktree.name}")
        (self._folder / f"start-{worktree.name}").unlink(missing_ok=True)


def disarm(folder: Path) -> None:
    """Remove from an agent's `.git` whatever git would execute or follow elsewhere."""
    if folder.is_symlink() or not folder.is_dir():
        raise RepositoryError("the agent replaced its repository")
    for name in ARMED:
        path = folder / name
        if path.is_symlink() or path.is_file():
            path.unlink()
        elif path.is_dir() and name != "objects/info":
            shutil.rmtree(path)
    alternates = folder / "objects" / "info" / "alternates"
    alternates.unlink(missing_ok=True)
    (folder / "config").unlink(missing_ok=True)
    (folder / "config").write_text("[core]\n\trepositoryformatversion = 0\n\tbare = false\n", encoding="ascii")
