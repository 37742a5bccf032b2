"""Runs one program and writes its numbers as JSON: `measure.py NAME [compile]`, with torch or under the alias."""

import importlib
import json
import sys
import traceback
import warnings

import torch
from case import measure
from programs import MODULES


def main(name: str, compiled: bool) -> dict[str, object]:
    """Return the numbers of a program, or how far it came."""
    result: dict[str, object] = {"numbers": {}}
    stage = "import"
    try:
        build = getattr(importlib.import_module(f"programs.{MODULES[name]}"), name)
        stage = "build"
        case = build()
        stage = "run"
        for part, value in measure(case):
            result["numbers"][part] = value
            stage = f"after {part}"
        if compiled and case.compiled is not None:
            stage = "compile"
            result["compile"] = _compare(build())
    except Exception as problem:
        result["problem"] = f"{stage}: {type(problem).__name__}: {problem}"
        result["traceback"] = traceback.format_exc()
    return result


def _compare(case) -> str:
    case.model.eval()
    with torch.no_grad():
        eager = case.compiled(lambda model: model)
        try:
            compiled = case.compiled(torch.compile)
        except Exception as problem:
            traceback.print_exc()
            return f"{type(problem).__name__}: {problem}"
    return "equal" if bool((eager == compiled).all()) else "differs"


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    text = json.dumps(main(sys.argv[1], sys.argv[2:] == ["compile"]))
    sys.stdout.write(f"\n{text}\n")
