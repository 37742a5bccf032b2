"""Compares Rushlight with PyTorch on PyTorch's operator database; run where both are installed.

    python -m tools.opdb                         what is not yet done; results in the folder .opdb
    python -m tools.opdb --only sum,std --fresh  these entries, again
    python -m tools.opdb --report [--every]      the table and the failures, without running anything
    python -m tools.opdb --report --markdown     the tables alone
    python -m tools.opdb --report --record       keep them for docs/coverage.md, which `make generate` writes

Exit status 1 when a value, a shape or a dtype is wrong, or an error has no code.
"""

from __future__ import annotations

import argparse
import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from tools.opdb import report


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.opdb", description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path(".opdb"))
    parser.add_argument("--only", default="", help="names of entries, by commas")
    parser.add_argument("--dtypes", default="float32,float64,bfloat16,int64,bool,complex64")
    parser.add_argument("--samples", type=int, default=1000, help="at most so many of each dtype")
    parser.add_argument("--compiled", type=int, default=1000, help="compile at most so many of each dtype")
    parser.add_argument("--reference", action="store_true", help="the database's larger set of samples")
    parser.add_argument("--parts", default="forward,method,inplace,compiled,out,error inputs")
    parser.add_argument("--at", default="", help="a name for the code, as a commit, kept with the results")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--timeout", type=int, default=1800, help="seconds for an operator")
    parser.add_argument("--fresh", action="store_true", help="forget earlier results of these entries")
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--every", action="store_true", help="print registered errors too")
    parser.add_argument("--markdown", action="store_true", help="print the tables alone")
    parser.add_argument("--record", action="store_true", help="keep the tables for docs/coverage.md")
    return parser.parse_args()


def command_of(options: argparse.Namespace) -> str:
    """The command line whose results these are, as far as it decides what is asked."""
    return f"python -m tools.opdb --samples {options.samples} --compiled {options.compiled}"


def main() -> int:
    """Run what is to be run, and print what was found."""
    options = arguments()
    only = {name for name in options.only.split(",") if name}
    if not options.report:
        running: Any = import_module("tools.opdb.running")  # loads PyTorch, which a report does not need
        running.run(only, options)
    results = [report.read(path) for path in sorted(options.folder.glob("*.json"))]
    results = [one for one in results if not only or {one["operator"].split(":")[0], one["operator"]} & only]
    summary = report.summary_of(results, command_of(options))
    print(*report.lines(summary), sep="\n")
    if options.record:
        report.RECORDED.write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    lines = list(report.wrong(results, every=options.every))
    if not options.markdown:
        print(*lines, sep="\n")
    return 1 if any(report.wrong(results)) else 0


if __name__ == "__main__":
    sys.exit(main())
