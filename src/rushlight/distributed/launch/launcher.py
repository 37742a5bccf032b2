"""`rushlight launch -n 4 script.py`: the ranks of a job as processes of MPI's own launcher, and how the job ends."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

from rushlight.distributed.launch.program import die_with_parent
from rushlight.support import lazy
from rushlight.support.errors import fail

_POLL = 0.05  # seconds
_PATIENCE = 2.0  # seconds that ranks have to end by themselves once one has failed
# Fresh pages cost more than the transfer of large messages: freed memory is kept.
MALLOC = "glibc.malloc.mmap_threshold=1073741824:glibc.malloc.trim_threshold=4294967296"


def mpiexec() -> str:
    """The path of MPI's launcher: that of this Python's environment, else the first on the path. Errors: W008."""
    beside = os.path.join(os.path.dirname(sys.executable), "mpiexec")
    found = beside if os.path.exists(beside) else shutil.which("mpiexec")
    if found is None:
        fail("W008", "launch: there is no mpiexec", hint="pip install 'rushlight[dist]'")
    return found


def launch(
    command: Sequence[str], ranks: int, *, hosts: str = "", agent: str = "", max_restarts: int = 0, oversee: float = 0
) -> int:
    """Runs a command on so many ranks, again where one fails, and returns the exit status.

    That is 0, or the status of the rank that failed first, whose error is printed last; 130 after Ctrl-C. `oversee` is
    the seconds that the job may take, where it is not 0.
    """
    status = 0
    for attempt in range(max_restarts + 1):
        with tempfile.TemporaryDirectory(prefix="rushlight-launch-") as folder:
            status = _run(command, ranks, Path(folder), hosts, agent, attempt, oversee)
        if status in (0, 130):
            return status
        if attempt < max_restarts:
            sys.stderr.write(
                f"rushlight launch: starting again, {max_restarts - attempt} of {max_restarts} times left\n"
            )
    return status


def _run(command: Sequence[str], ranks: int, folder: Path, hosts: str, agent: str, attempt: int, oversee: float) -> int:
    where = ["-hosts", hosts] if hosts else []
    where += ["-launcher", "rsh", "-launcher-exec", agent] if agent else []
    told = {"RUSHLIGHT_LAUNCH_DIR": str(folder), "GLIBC_TUNABLES": MALLOC, "TORCHELASTIC_RESTART_COUNT": str(attempt)}
    variables = [word for name, value in told.items() for word in ("-genv", name, value)]
    process = subprocess.Popen(
        [mpiexec(), *where, "-n", str(ranks), *variables, *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        preexec_fn=die_with_parent,
    )
    output = _Output(process)
    try:
        status = _waited(process, folder, oversee)
    except KeyboardInterrupt:
        _end(process)
        return 130
    finally:
        output.join(_PATIENCE)
    first = first_failure(folder)
    if first is not None:
        sys.stderr.write(f"rushlight launch: rank {first['rank']} of {ranks} failed first:\n{first['text']}")
        return first["status"] if first["status"] != 1 else status or 1
    if status:
        sys.stderr.write(
            f"rushlight launch: {_ended_first(folder, output.pid)} of {ranks} has ended with status {status}\n"
        )
    return status if status >= 0 else 128 - status


def _ended_first(folder: Path, pid: int) -> str:
    """The rank of a process."""
    found = [path.stem for path in folder.glob("rank*.pid") if path.read_text(encoding="utf-8") == str(pid)]
    return f"rank {found[0].removeprefix('rank')}" if found else "a rank"


class _Output(threading.Thread):
    """Hands on what ranks print, and reads in it which process MPI's launcher says has ended first: `pid`."""

    _SAID = re.compile(rb"=   PID (\d+) RUNNING AT")

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        super().__init__(daemon=True)
        self.pid = 0
        self._process = process
        self.start()

    def run(self) -> None:
        """Reads up to the end."""
        pipe, last = self._process.stdout, b""
        assert pipe is not None
        with pipe:
            while piece := os.read(pipe.fileno(), 1 << 16):
                sys.stdout.buffer.write(piece)
                sys.stdout.buffer.flush()
                last = last[-200:] + piece
                said = self._SAID.search(last)
                if said is not None and not self.pid:
                    self.pid = int(said[1])


def _waited(process: subprocess.Popen[bytes], folder: Path, oversee: float) -> int:
    """The status of a job, which ends soon after one of its ranks has failed."""
    begin, failed = time.monotonic(), 0.0
    while True:
        try:
            return process.wait(_POLL)
        except subprocess.TimeoutExpired:
            now = time.monotonic()
        if not failed and first_failure(folder) is not None:
            failed = now
        if failed and now - failed > _PATIENCE:
            _end(process)
            return 1
        if oversee and now - begin > oversee:
            sys.stderr.write(f"rushlight launch: the job has taken more than {oversee:.0f} s\n")
            _end(process)
            return 124


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends a job: its launcher ends the ranks, or the kernel does."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        process.send_signal(number)
        try:
            process.wait(_PATIENCE)
            return
        except subprocess.TimeoutExpired:
            continue


class Report(TypedDict):
    """What a rank tells that has failed: the status is that of its process; `follows` another one that failed."""

    rank: int
    follows: bool
    time: float
    text: str
    status: int


def first_failure(folder: Path) -> Report | None:
    """What the rank that failed first has told. Who fails because of it may have written that down sooner."""
    reports: list[Report] = [lazy.json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("rank*.json")]
    return min(reports, key=lambda report: (report["follows"], report["time"]), default=None)
