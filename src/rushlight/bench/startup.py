"""How long it takes to begin: the import and the first call of a case, each in an interpreter of its own.

A worker imports numpy and reads the inputs before its clock starts. Three states of a framework's cache of compiled
code are measured: switched off, empty, and filled by the run before.
"""

from __future__ import annotations

import json
import resource
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from rushlight.bench.contestants import Kind, command, variables
from rushlight.bench.records import Case, Record
from rushlight.bench.results import store

STATES = ("off", "empty", "filled")


def cache_variables(framework: str, state: str, folder: str) -> dict[str, str] | None:
    """Environment variables that put a framework's cache into a state. None if it has no cache."""
    off = state == "off"
    if framework == "rushlight":
        return {"RUSHLIGHT_CACHE": "0" if off else "1", "RUSHLIGHT_CACHE_DIR": folder}
    if framework == "torch":
        return {"TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1" if off else "0", "TORCHINDUCTOR_CACHE_DIR": folder}
    if framework == "jax":
        everything = {
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        }
        return {} if off else {**everything, "JAX_COMPILATION_CACHE_DIR": folder}
    if framework == "tinygrad":
        return {"CACHELEVEL": "0" if off else "2", "CACHEDB": f"{folder}/cache.db"}
    return {} if off else None


def measure_starts(
    case: Case, pythons: Mapping[Kind, str], rounds: int, threads: int, limit: float, say: Callable[[str], None]
) -> Record:
    """Wall and processor seconds of every contestant that compiles, in turns. A failure ends its turns."""
    records: dict[str, Record] = {}
    with tempfile.TemporaryDirectory(prefix="rushlight-bench-") as folder:
        store(Path(folder) / "inputs.npz", case.inputs())
        say(f"{case.name}:")
        for _ in range(rounds):
            for kind, python in pythons.items():
                entry = records.setdefault(kind.name, {"status": "ready", "import_s": [], "states": {}})
                if entry["status"] == "ready":
                    say(f" {kind.name}")
                    entry |= begin(kind, python, case, entry, folder, threads, limit)
        say("\n")
    return {"case": case.name, "contestants": records}


def begin(kind: Kind, python: str, case: Case, entry: Record, folder: str, threads: int, limit: float) -> Record:
    """Add one run in each state of the cache to the entry; return the answer of a failed run."""
    with tempfile.TemporaryDirectory(prefix="rushlight-bench-cache-") as cache:
        for state in STATES:
            cache_folder = f"{cache}/{'off' if state == 'off' else 'on'}"
            wanted = cache_variables(kind.framework, state, cache_folder)
            if wanted is None:
                continue
            environment = {**variables(kind.framework, threads), **wanted}
            environment.pop("TORCHINDUCTOR_COMPILE_THREADS", None)  # as many as torch likes
            line = command(python, kind.framework, kind.mode, str(threads), case.name, folder, **environment)
            answer = first_call(line, limit)
            if answer["status"] != "ready":
                return {key: answer[key] for key in ("status", "reason", "trace") if key in answer}
            entry["version"] = answer["version"]
            entry["import_s"].append(answer["import_s"])
            times = entry["states"].setdefault(state, {"wall_s": [], "cpu_s": []})
            times["wall_s"].append(answer["wall_s"])
            times["cpu_s"].append(answer["cpu_s"])
    return {}


def first_call(line: list[str], limit: float) -> Record:
    """Runs a worker for one call. Processor seconds count all its processes from the start of its clock."""
    before = processor_seconds()
    try:
        done = subprocess.run(
            line, check=False, capture_output=True, text=True, timeout=limit, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        return {"status": "late", "reason": f"not done within {limit:g} s"}
    if done.returncode or not done.stdout:
        said = done.stderr.strip() or "it said nothing"
        reason = f"its process ended with status {done.returncode}: {said.splitlines()[-1]}"
        return {"status": "dead", "reason": reason, "trace": said[-4000:]}
    answer = json.loads(done.stdout)
    if "cpu_before_s" in answer:
        answer["cpu_s"] = processor_seconds() - before - answer.pop("cpu_before_s")
    return answer


def processor_seconds() -> float:
    """Of all processes that this one has started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
