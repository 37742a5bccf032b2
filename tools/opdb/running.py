"""Runs the check, a process for each operator, and keeps what each found in a file of its own."""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import time
import traceback
import warnings
from argparse import Namespace
from pathlib import Path
from typing import Any

from rushlight.support import settings as compiler_settings
from tools.opdb import pytorch
from tools.opdb.checking import Settings, Tally, check_errors, checked, ours


def file_of(folder: Path, label: str) -> Path:
    """Where an operator's results lie."""
    return folder / (label.replace(":", "~").replace("/", "_") + ".json")


def result_of(entry: Any, settings: Settings) -> dict[str, Any]:
    """Everything that is asked of an operator, as JSON."""
    start = time.process_time()
    result: dict[str, Any] = {"operator": pytorch.label(entry), "dtypes": {}, "failures": []}
    if ours(entry) is None:
        return {**result, "missing": "internal" if pytorch.internal(entry) else "public"}
    with compiler_settings.override(optimise=0):  # the same bits, sooner
        for dtype in settings.dtypes:
            tally = checked(entry, dtype, settings)
            if tally.counts:
                result["dtypes"][dtype] = dict(sorted(tally.counts.items()))
                result["failures"] += tally.failures
        tally = check_errors(entry) if "error inputs" in settings.parts else Tally()
        at = f" at {settings.at}" if settings.at else ""
        result["asked"] = f"{settings.samples} of {', '.join(settings.dtypes)}{at}"
        result["dtypes"]["error inputs"] = dict(sorted(tally.counts.items()))
        result["failures"] += tally.failures
    return {**result, "seconds": round(time.process_time() - start, 1)}


def _child(entry: Any, settings: Settings, path: Path, timeout: int) -> None:
    signal.alarm(timeout)  # its default action ends the process
    warnings.simplefilter("ignore")
    result = result_of(entry, settings)
    part = path.with_suffix(f".{os.getpid()}")
    part.write_text(json.dumps(result, indent=1), encoding="utf-8")
    part.replace(path)


def run(only: set[str], options: Namespace) -> None:
    """Check what the command line asks for: a forked process per operator without results yet."""
    entries = [entry for entry in pytorch.operators() if not only or {entry.name, pytorch.label(entry)} & only]
    if options.fresh:
        for entry in entries:
            file_of(options.folder, pytorch.label(entry)).unlink(missing_ok=True)
    numbers = (options.samples, options.compiled, options.reference)
    settings = Settings(tuple(options.dtypes.split(",")), *numbers, tuple(options.parts.split(",")), options.at)
    _run_all(entries, settings, options.folder, options.jobs, options.timeout)


def _run_all(entries: list[Any], settings: Settings, folder: Path, jobs: int, timeout: int) -> None:
    """At most `jobs` processes at a time. What ends one, a signal or the time, is that operator's failure."""
    folder.mkdir(parents=True, exist_ok=True)
    waiting = [entry for entry in entries if not file_of(folder, pytorch.label(entry)).exists()]
    running: dict[int, str] = {}
    pytorch.torch.set_num_threads(1)
    gc.freeze()
    while waiting or running:
        while waiting and len(running) < jobs:
            entry = waiting.pop(0)
            name = pytorch.label(entry)
            if file_of(folder, name).exists():  # another process has been here
                continue
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    _child(entry, settings, file_of(folder, name), timeout)
                    status = 0
                except Exception:  # noqa: BLE001 - the parent writes down that the process failed
                    traceback.print_exc()
                finally:
                    sys.stderr.flush()
                    os._exit(status)
            running[child] = name
        if not running:
            break
        child, status = os.wait()
        _finished(file_of(folder, running[child]), running.pop(child), status)


def _finished(path: Path, name: str, status: int) -> None:
    if status == 0 and path.exists():
        result = json.loads(path.read_text(encoding="utf-8"))
        bad = [failure for failure in result["failures"] if failure["category"] != "refused"]
        if bad:
            print(f"{name}: {len(bad)} failures in {result['seconds']} s", flush=True)
        return
    ended = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"status {os.WEXITSTATUS(status)}"
    failure = {"dtype": "", "sample": -1, "part": "process", "category": "raw", "detail": ended, "call": ""}
    result = {"operator": name, "dtypes": {"": {"process/raw": 1}}, "failures": [failure], "seconds": 0}
    path.write_text(json.dumps(result), encoding="utf-8")
    print(f"{name}: ended by {ended}", flush=True)
