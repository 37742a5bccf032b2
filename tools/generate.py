"""Write, or check, every generated file: `python -m tools.generate [--check]`.

A generator is a module with `outputs() -> dict[str, str]`, the text of each file by its path in the repository.
"""

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import cast

ROOT = Path(__file__).resolve().parent.parent

GENERATORS = ("tools.pages", "tools.generate_ops", "tools.generate_public", "tools.generate_coverage")


def outputs() -> dict[str, str]:
    """Return the text of every generated file by its path in the repository."""
    texts: dict[str, str] = {}
    for name in GENERATORS:
        if importlib.util.find_spec(name) is not None:
            texts |= cast(dict[str, str], importlib.import_module(name).outputs())
    return texts


def stale() -> list[str]:
    """Return the paths of generated files that are missing or differ from what would be written."""
    return [path for path, text in outputs().items() if not is_fresh(ROOT / path, text)]


def is_fresh(path: Path, text: str) -> bool:
    """Return whether a file exists with this text."""
    return path.exists() and path.read_text(encoding="utf-8") == text


def main(arguments: list[str]) -> int:
    """Write the files that are stale; with `--check`, only name them and return 1 if there are any."""
    texts = outputs()
    paths = [path for path, text in texts.items() if not is_fresh(ROOT / path, text)]
    if "--check" in arguments:
        print(*(f"{path} is stale: run `make generate`" for path in paths), f"{len(texts)} generated files", sep="\n")
        return 1 if paths else 0
    for path in paths:
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(texts[path], encoding="utf-8")
        print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
