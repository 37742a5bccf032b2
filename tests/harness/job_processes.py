"""Whether the processes of a job have ended, whose numbers its ranks print in brackets: `[4711]`."""

import re
import time
from pathlib import Path


def pids(text: str) -> list[int]:
    """The numbers of processes in what ranks have printed."""
    return [int(number) for number in re.findall(r"\[(\d+)\]", text)]


def alive(pid: int) -> bool:
    """Whether a process runs. One that has ended stays in /proc until its parent asks: not every process 1 does."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] not in "ZX"


def gone(numbers: list[int], within: float = 5.0) -> bool:
    """Whether all of some processes have ended after so many seconds."""
    until = time.monotonic() + within
    while any(map(alive, numbers)) and time.monotonic() < until:
        time.sleep(0.05)
    return not any(map(alive, numbers))
