"""Write, or check, every generated file: `python -m tools.generate [--check]`.

A generator is a module with `outputs() -> dict[str, str]`, the text of each file by its path in the repository.
"""

import importlib
import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import cast

ROOT = Path(__file__).resolve().parent.parent

GENERATORS = (
    "tools.generate_deferred",
    "tools.pages",
    "tools.generate_ops",
    "tools.generate_public",
    "tools.generate_coverage",
    "tools.cpython_tests.report",
)


def outputs() -> dict[str, str]:
    """Return the text of every generated file by its path in the repository."""
    texts: dict[str, str] = {}
    for name in GENERATORS:
        texts |= outputs_of(name)
    return texts


def outputs_of(name: str) -> dict[str, str]:
    """Return the texts of one generator; none if it is not there."""
    found = importlib.util.find_spec(name) is not None
    return cast(dict[str, str], importlib.import_module(name).outputs()) if found else {}


def stale() -> list[str]:
    """Return the paths of generated files that are missing or differ from what would be written."""
    return [path for path, text in outputs().items() if not is_fresh(ROOT / path, text)]


def is_fresh(path: Path, text: str) -> bool:
    """Return whether a file exists with this text."""
    return path.exists() and path.read_text(encoding="utf-8") == text


def written(texts: dict[str, str]) -> list[str]:
    """Write the files that are stale, and return their paths."""
    paths = [path for path, text in texts.items() if not is_fresh(ROOT / path, text)]
    for path in paths:
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(texts[path], encoding="utf-8")
        print(f"wrote {path}", flush=True)
    return paths


def main(arguments: list[str]) -> int:
    """Write the files that are stale; with `--check`, only name them and return 1 if there are any."""
    if "--check" in arguments:
        paths = stale()
        print(*(f"{path} is stale: run `make generate`" for path in paths), sep="\n")
        return 1 if paths else 0
    for name in GENERATORS:
        if any(path.endswith(".py") for path in written(outputs_of(name))):
            # Later generators import what was written, which this process has in its old form.
            return subprocess.run([sys.executable, "-m", "tools.generate"], check=False).returncode
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
