"""The peer's side, a script for an interpreter that has torch and not Rushlight: `python peer.py`.

It reads the cases' own text, in which the name `rushlight` then means torch, and answers lines of JSON: `hello`,
`prepare`, `sample`. `python peer.py first-step` prints the seconds from the import to the end of the first compiled
training step, without torch's caches.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

PACKAGE = Path(__file__).resolve().parent.parent
MODULES = ("demo.model", "demo.training", "bench.cases")


def load_cases(torch: Any) -> Any:
    """The module of cases, with torch under Rushlight's name."""
    sys.modules["rushlight"] = torch
    for folder in ("rushlight.demo", "rushlight.bench"):
        sys.modules[folder] = ModuleType(folder)
    module: Any = None
    for name in MODULES:
        path = PACKAGE.joinpath(*name.split(".")).with_suffix(".py")
        spec = importlib.util.spec_from_file_location(f"rushlight.{name}", path)
        assert spec is not None and spec.loader is not None
        sys.modules[spec.name] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


def serve(torch: Any) -> None:
    """Answers questions until there are no more."""
    module = load_cases(torch)
    works: dict[str, Any] = {}
    for line in sys.stdin:
        question = json.loads(line)
        answer: dict[str, Any] = {}
        if question["do"] == "hello":
            answer = {"name": "torch", "version": torch.__version__}
        elif question["do"] == "prepare":
            torch.set_num_threads(question["threads"])
            works[question["case"]] = work = module.CASES[question["case"]].prepare()
            for _ in range(question["calls"]):
                work()
        else:
            work, repeat = works[question["case"]], question["repeat"]
            started = time.perf_counter()
            for _ in range(repeat):
                work()
            answer = {"seconds": (time.perf_counter() - started) / repeat}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def first_step(started: float, torch: Any) -> float:
    """Seconds from the import to the end of the first compiled training step."""
    settings: Any = importlib.import_module("torch._inductor.config")
    settings.force_disable_caches = True
    load_cases(torch).CASES["demo-step"].prepare()()
    return time.perf_counter() - started


def main() -> None:
    """Serves, or times the first step."""
    started = time.perf_counter()
    torch = importlib.import_module("torch")
    if sys.argv[1:] == ["first-step"]:
        sys.stdout.write(f"{first_step(started, torch)}\n")
    else:
        serve(torch)


if __name__ == "__main__":
    main()
