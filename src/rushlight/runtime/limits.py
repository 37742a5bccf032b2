"""What this process may use of the machine: processors and memory, as affinity and control groups allow."""

import functools
import math
import os
from collections.abc import Callable
from pathlib import Path

_CGROUP_ROOT = Path("/sys/fs/cgroup")
_PROCESS_CGROUPS = Path("/proc/self/cgroup")
_MEMORY_INFO = Path("/proc/meminfo")
_UNKNOWN_MEMORY_BYTES = 1 << 40

ReadLimit = Callable[[Path], list[float]]
"""From the folder of a control group to the limits that it sets: none or one."""


def available_cores() -> int:
    """Processors that this process is allowed: its affinity, and below that its control groups' quota of time."""
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    quota = cpu_quota(_CGROUP_ROOT, _PROCESS_CGROUPS)
    return max(1, min(cores, math.ceil(quota)) if quota else cores)


@functools.cache
def memory_bytes() -> int:
    """Physical memory plus swap, or the control groups' limit where that is less."""
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return _UNKNOWN_MEMORY_BYTES
    try:
        lines = _MEMORY_INFO.read_text().splitlines()
    except OSError:
        lines = []
    total += sum(int(line.split()[1]) << 10 for line in lines if line.startswith("SwapTotal:"))
    return int(min(total, memory_quota(_CGROUP_ROOT, _PROCESS_CGROUPS) or total))


def cpu_quota(root: Path, membership: Path) -> float | None:
    """Processors' worth of time that the control groups grant (versions 1 and 2), or None for no limit."""
    return _least_limit(root, membership, "cpu", _cpu_v1, _cpu_v2)


def memory_quota(root: Path, membership: Path) -> float | None:
    """Bytes that the control groups grant, or None for no limit."""
    return _least_limit(root, membership, "memory", _memory_v1, _memory_v2)


def _least_limit(root: Path, membership: Path, controller: str, v1: ReadLimit, v2: ReadLimit) -> float | None:
    """Every group from the process's own up to the root may set a limit; the least counts."""
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return None
    limits: list[float] = []
    for line in lines:
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        if number == "0" and not controllers:
            limits += _limits_up_to([root, root / "unified"], path, v2)
        elif controller in controllers.split(","):
            limits += _limits_up_to([root / controllers, root / controller], path, v1)
    return min(limits, default=None)


def _limits_up_to(roots: list[Path], path: str, read: ReadLimit) -> list[float]:
    limits: list[float] = []
    for root in roots:
        group = root / path.lstrip("/")
        for folder in (group, *group.parents):
            limits += read(folder)
            if folder == root:
                break
    return limits


def _cpu_v2(group: Path) -> list[float]:
    """From `cpu.max`: "quota period", or "max period"."""
    words = _words(group / "cpu.max")
    return [int(words[0]) / int(words[1])] if len(words) == 2 and words[0].isdigit() and int(words[1]) else []


def _cpu_v1(group: Path) -> list[float]:
    words = _words(group / "cpu.cfs_quota_us") + _words(group / "cpu.cfs_period_us")
    return [int(words[0]) / int(words[1])] if len(words) == 2 and words[0].isdigit() and int(words[1]) else []


def _memory_v2(group: Path) -> list[float]:
    return [float(word) for word in _words(group / "memory.max") if word.isdigit()]


def _memory_v1(group: Path) -> list[float]:
    return [float(word) for word in _words(group / "memory.limit_in_bytes") if word.isdigit()]


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []
