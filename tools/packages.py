"""Runs programs of packages that are built on torch under the alias, and compares them with torch's recorded numbers.

    python -m tools.packages [NAME...]           each program: whole, or what is missing first
    python -m tools.packages --record [NAME...]  in an environment with torch: record the numbers

The programs are those of `tests/packages`. The environment needs the packages, installed without torch.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "tests" / "packages"
TOLERANCE = 1e-4
SMALL = 1e-2  # the length below which a tensor's numbers are compared absolutely

Numbers = dict[str, Any]


def programs() -> list[str]:
    """Return the names of the programs."""
    return list(json.loads((FOLDER / "programs" / "names.json").read_text()))


def run(name: str, command: tuple[str, ...] = ("-m", "rushlight.torch")) -> Numbers:
    """Return what a program measures, in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "HF_HUB_OFFLINE": "1"}
    ended = subprocess.run(
        [sys.executable, *command, str(FOLDER / "measure.py"), name, *(["compile"] if command else [])],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    lines = ended.stdout.strip().splitlines()
    if ended.returncode or not lines:
        return {"numbers": {}, "problem": f"exit {ended.returncode}: {ended.stderr.strip()[-500:]}"}
    return json.loads(lines[-1]) | {"stderr": ended.stderr}


def record_of(name: str) -> Path:
    """Return the file of a program's recorded numbers."""
    return FOLDER / "records" / f"{name}.json"


def differences(ours: Numbers, theirs: Numbers) -> Iterator[str]:
    """Yield in which parts the numbers of a program are not those that torch gave."""
    for part, expected in theirs.items():
        if part not in ours:
            yield f"{part} is missing"
        elif not _agree(ours[part], expected):
            yield f"{part}: {str(ours[part])[:120]} and not {str(expected)[:120]}"


def _agree(ours: Any, theirs: Any) -> bool:
    if not isinstance(theirs, dict) or "length" not in theirs:
        return bool(ours == theirs)
    if ours["shape"] != theirs["shape"]:
        return False
    bound = TOLERANCE * max(theirs["length"], SMALL)
    pairs = zip([ours["length"], *ours["elements"]], [theirs["length"], *theirs["elements"]], strict=True)
    return all(abs(left - right) <= bound for left, right in pairs)


def verdict(name: str) -> tuple[bool, str]:
    """Run a program and say whether it is whole, and if not what is missing first; and how its compiled form fares."""
    result = run(name)
    theirs: Numbers = json.loads(record_of(name).read_text())["numbers"]
    problem = result.get("problem") or next(differences(result["numbers"], theirs), "")
    compiled = f"; compiled: {result['compile']}" if "compile" in result else ""
    return not problem, f"{problem or 'whole'}{compiled}"


def record(name: str) -> None:
    """Write the numbers that torch gives."""
    result = run(name, ())
    if "problem" in result:
        sys.exit(f"{name}: {result['problem']}")
    text = json.dumps({"numbers": result["numbers"]}, indent=0)
    record_of(name).write_text(f"{text}\n")


def main() -> None:
    """Run or record the programs that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--record", action="store_true", help="record what torch gives")
    options = parser.parse_args()
    whole = 0
    names = options.names or programs()
    for name in names:
        if options.record:
            record(name)
            continue
        passed, text = verdict(name)
        whole += passed
        print(f"{name:18} {text}", flush=True)
    if not options.record:
        print(f"{whole} of {len(names)} whole")


if __name__ == "__main__":
    main()
