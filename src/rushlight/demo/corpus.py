"""The text that the demo learns from: the source of the running interpreter's standard library."""

from __future__ import annotations

import hashlib
import sysconfig
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rushlight.support.errors import require
from rushlight.support.frozen import frozen

Bytes = NDArray[np.uint8]

# Generated tables, fixtures and programs for other purposes would teach something else than Python.
EXCLUDED = (
    "test*",
    "tests",
    "encodings",
    "pydoc_data",
    "idlelib",
    "lib2to3",
    "site-packages",
    "dist-packages",
    "__pycache__",
)
HELD_OUT_SHARE = 10  # one file in so many
SMALLEST_BYTES = 10_000


@frozen
class Corpus:
    """Two texts, `train` and `held_out`, as bytes: whole files one after the other. `files` counts them."""

    train: Bytes
    held_out: Bytes
    files: tuple[int, int]

    def batch(self, seed: int, step: int, count: int, length: int) -> NDArray[np.int64]:
        """Windows of the training text for one step, [count, length]: a function of seed and step alone."""
        starts = np.random.default_rng((seed, step)).integers(0, len(self.train) - length + 1, size=count)
        return windows_at(self.train, starts, length)

    def held_out_windows(self, count: int, length: int) -> NDArray[np.int64]:
        """Windows evenly spread over the held-out text, [count, length]; fewer where the text is short."""
        count = max(1, min(count, len(self.held_out) // length))
        return windows_at(self.held_out, self.held_out_starts(count, length), length)

    def held_out_starts(self, count: int, length: int) -> NDArray[np.int64]:
        """The start positions of those windows."""
        return np.linspace(0, len(self.held_out) - length, count).astype(np.int64)


def windows_at(text: Bytes, starts: NDArray[np.int64], length: int) -> NDArray[np.int64]:
    """The bytes from each start on, [len(starts), length]."""
    return text[starts[:, None] + np.arange(length)].astype(np.int64)


def read_corpus(folder: Path | None = None) -> Corpus:
    """The corpus of a folder of Python files, split by a hash of each file's relative path.

    The folder is the standard library's unless given. C007 when there is too little text to learn from.
    """
    root = Path(sysconfig.get_path("stdlib")) if folder is None else folder
    parts: tuple[list[bytes], list[bytes]] = ([], [])
    for path in source_files(root):
        parts[is_held_out(path.relative_to(root).as_posix())].append(path.read_bytes())
    train, held_out = (np.frombuffer(b"\n".join(part), np.uint8) for part in parts)
    enough = min(len(train), len(held_out)) >= SMALLEST_BYTES
    hint = "the demo learns from the standard library's .py files; this Python seems to come without them"
    require(enough, "P008", "demo: there is too little text to learn from", folder=str(root), hint=hint)
    return Corpus(train, held_out, (len(parts[0]), len(parts[1])))


def source_files(root: Path) -> list[Path]:
    """The Python files below a folder in a fixed order, without tests, tables and installed packages."""
    paths: list[Path] = []
    folders = [root]
    while folders:
        for path in folders.pop().iterdir():
            if any(fnmatchcase(path.name, pattern) for pattern in EXCLUDED):
                continue
            if path.suffix == ".py" and path.is_file():
                paths.append(path)
            elif path.is_dir() and not path.is_symlink():
                folders.append(path)
    return sorted(paths, key=lambda path: path.relative_to(root).as_posix())


def is_held_out(relative_path: str) -> bool:
    """Whether a file is kept from training: decided by its path alone, the same on every machine."""
    digest = hashlib.blake2b(relative_path.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") % HELD_OUT_SHARE == 0
