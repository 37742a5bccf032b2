"""What `rushlight doctor` looks at. Each check finds something well, or says what is wrong and how to mend it."""

from __future__ import annotations

import importlib.util
import platform
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np

import rushlight as rl
from rushlight.eager.execution.device import without_kernel
from rushlight.runtime import limits, llvm, objects
from rushlight.support import settings
from rushlight.support.errors import RushlightError
from rushlight.support.frozen import frozen

OLDEST_PYTHON, NEWEST_PYTHON = (3, 11), (3, 14)
PROBE_SECONDS = 1.0  # of processor time: other programs may be running
PROBE_SIZE = 4099  # a prime: full vectors and a tail
LEAST_FREE_BYTES = 64 << 20
MOST_MISSING = 12  # operators that are named


@frozen
class Finding:
    """One line of the diagnosis; `remedy` says how to mend what is not well."""

    subject: str
    well: bool
    text: str
    remedy: str = ""


def examine() -> Iterator[Finding]:
    """The findings, one after the other; a check that fails in a way of its own is a finding as well."""
    for subject, check in CHECKS.items():
        try:
            yield check()
        except RushlightError as problem:
            yield Finding(subject, False, f"{problem.code}: {problem.message}", problem.hint or "see docs/errors.md")
        except (OSError, ImportError, ValueError, ArithmeticError) as problem:
            yield Finding(subject, False, f"{type(problem).__name__}: {problem}", "please report this as a defect")


def _python() -> Finding:
    version = sys.version_info[:2]
    name = f"{platform.python_version()} ({platform.python_implementation()})"
    if not OLDEST_PYTHON <= version <= NEWEST_PYTHON or platform.python_implementation() != "CPython":
        wanted = f"CPython {OLDEST_PYTHON[0]}.{OLDEST_PYTHON[1]} to {NEWEST_PYTHON[0]}.{NEWEST_PYTHON[1]}"
        return Finding("python", False, f"{name} is not supported", f"install {wanted} and rushlight in it")
    return Finding("python", True, name)


def _settings() -> Finding:
    values = settings.get()
    changed = [row.variable for name, row in settings.SETTINGS.items() if getattr(values, name) != row.default]
    return Finding("settings", True, ", ".join(changed) or "all as by default")


def _llvm() -> Finding:
    if importlib.util.find_spec("llvmlite") is None:
        return Finding("llvm", False, "llvmlite is not installed", "pip install llvmlite")
    try:
        version = ".".join(map(str, llvm.binding().llvm_version_info))
    except (ImportError, OSError) as problem:
        remedy = "pip install --force-reinstall --no-cache-dir llvmlite"
        return Finding("llvm", False, f"llvmlite does not load: {problem}", remedy)
    return Finding("llvm", True, f"{version}, llvmlite {llvm.version()}")


def _target() -> Finding:
    name = settings.get().target
    target = llvm.target_named(name)
    if not llvm.runs_here(target):
        return Finding("target", False, f"this machine cannot run code for {name}", "unset RUSHLIGHT_TARGET")
    return Finding("target", True, f"{name}: {target.cpu}, vectors of {target.vector_bytes} bytes")


def _cache() -> Finding:
    cache = objects.shared()
    if cache.directory is None:
        return Finding("cache", True, "off: compiled code is kept in memory")
    cache.put("doctor", {"probe": b"probe"})
    if not list(cache.directory.glob("*")):
        folder = str(cache.directory)
        remedy = f"make {folder} a folder that you may write, or set RUSHLIGHT_CACHE_DIR"
        return Finding("cache", False, f"{folder} cannot be used: each process compiles anew", remedy)
    corrupt = cache.verify()
    if corrupt:
        return Finding("cache", False, f"{len(corrupt)} entries are corrupt", "rushlight cache clear")
    return Finding("cache", True, f"{cache.directory}, {cache.size_bytes() >> 20} MiB")


def _memory() -> Finding:
    total = limits.memory_bytes()
    if total < LEAST_FREE_BYTES:
        return Finding("memory", False, f"{total >> 20} MiB", "give this process, or its container, more memory")
    return Finding("memory", True, f"{total >> 20} MiB")


def _probe() -> Finding:
    """Compiles a kernel that no cache holds, and compares its bits with numpy's."""
    x = np.linspace(-3, 3, PROBE_SIZE, dtype=np.float32)
    started = time.process_time()
    with settings.override(cache=False):
        result = rl.compile(_probe_function)(rl.from_numpy(x)).numpy()
    seconds = time.process_time() - started
    wrong = int(np.count_nonzero(result != np.abs(x * np.float32(0.5) - np.float32(1))))
    if wrong:
        remedy = "set RUSHLIGHT_TARGET=x86-64-v3, and please report this with the output of `rushlight info`"
        return Finding("probe", False, f"{wrong} of {PROBE_SIZE} values are wrong", remedy)
    if seconds > PROBE_SECONDS:
        return Finding(
            "probe", False, f"took {seconds:.1f} s of processor time to compile", "is the machine out of memory?"
        )
    return Finding("probe", True, f"compiled and right in {seconds * 1e3:.0f} ms of processor time")


def _probe_function(x: rl.Tensor) -> rl.Tensor:
    return (x * 0.5 - 1).abs()


def _threads() -> Finding:
    """A sum long enough to be split among all threads, checked against one thread's."""
    count = rl.get_num_threads()
    x = rl.from_numpy(np.linspace(0, 1, 1 << 20, dtype=np.float32).reshape(1024, 1024))
    together = x.sum(1)
    rl.set_num_threads(1)
    try:
        alone = x.sum(1)
    finally:
        rl.set_num_threads(count)
    if (together.numpy() != alone.numpy()).any():
        return Finding("threads", False, f"{count} threads do not compute what one does", "set RUSHLIGHT_NUM_THREADS=1")
    return Finding("threads", True, f"{count} of {limits.available_cores()} processors")


def _devices() -> Finding:
    """What plug-ins of devices say of themselves."""
    lacks = [f"{name} lacks {what}" for name in rl.backends.installed() for what in rl.backends.get(name).lacks()]
    if lacks:
        return Finding("devices", False, "; ".join(lacks), "see the documentation of the device's package")
    return Finding("devices", True, ", ".join(("cpu", "meta", *map(_device_text, rl.backends.installed()))))


def _device_text(name: str) -> str:
    """A device, and the operators that it has no kernel for."""
    missing = without_kernel(rl.backends.get(name))
    if not missing:
        return name
    shown = ", ".join(missing[:MOST_MISSING])
    more = f" and more: rushlight ops coverage --device {name} --missing" if len(missing) > MOST_MISSING else ""
    return f"{name} ({len(missing)} operators without a kernel, which the CPU runs on copies: {shown}{more})"


CHECKS: dict[str, Callable[[], Finding]] = {
    "python": _python,
    "settings": _settings,
    "llvm": _llvm,
    "target": _target,
    "cache": _cache,
    "memory": _memory,
    "probe": _probe,
    "threads": _threads,
    "devices": _devices,
}
