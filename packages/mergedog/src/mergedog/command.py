"""An agent that is a command: `CMD PROMPT WORKTREE`, in a process group of its own, with a time limit."""

import hashlib
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from mergedog.agent import Ending, How
from mergedog.processes import die_with_parent
from mergedog.secrets import scrub
from mergedog.untrusted import Untrusted

REASON_BYTES = 4000


@dataclass(frozen=True, slots=True)
class CommandAgent:
    """Runs a command. `guarded` are files of the harness that must be the same afterwards."""

    command: str
    variables: Sequence[str] = ("PATH", "HOME", "LANG", "TERM")
    guarded: Sequence[Path] = ()
    surroundings: dict[str, str] = field(default_factory=lambda: dict(os.environ), repr=False)

    def run(self, prompt: str, worktree: Path, seconds: float) -> Ending:
        """Hand the agent a prompt file and a worktree, and say how that ended."""
        before = _digest(self.guarded)
        folder = Path(tempfile.mkdtemp(prefix="mergedog-prompt-"))
        try:
            how = self._run(prompt, folder, worktree, seconds)
            if _digest(self.guarded) != before:
                return Ending(How.MEDDLED)
            return Ending(how, _reason(folder / "spurious"))
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _run(self, prompt: str, folder: Path, worktree: Path, seconds: float) -> How:
        page = folder / "prompt.txt"
        page.write_text(prompt, encoding="utf-8")
        own = {"MERGEDOG_PROMPT": str(page), "MERGEDOG_SPURIOUS": str(folder / "spurious")}
        given = {name: self.surroundings[name] for name in self.variables if name in self.surroundings}
        try:
            process = subprocess.Popen(
                [*shlex.split(self.command), str(page), str(worktree)],
                cwd=worktree,
                env={**given, **own},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )
        except OSError:
            return How.FAILED
        try:
            return How.FINISHED if process.wait(seconds) == 0 else How.FAILED
        except subprocess.TimeoutExpired:
            return How.HUNG
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of the agent's process group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _reason(path: Path) -> Untrusted | None:
    """Return what the agent wrote to the file for spurious failures."""
    try:
        with path.open("rb") as file:
            text = file.read(REASON_BYTES).decode("utf-8", "replace").strip()
    except OSError:
        return None
    return Untrusted(scrub(text), "agent") if text else None


def _digest(paths: Sequence[Path]) -> str:
    """Return a digest of files; one that is missing counts too."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(str(path).encode() + b"\0" + (path.read_bytes() if path.is_file() else b"missing"))
    return digest.hexdigest()
