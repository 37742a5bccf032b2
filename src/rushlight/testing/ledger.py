"""Ledgers of campaigns: a line of JSON for each run as it ends, so that a campaign goes on where one has stopped."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

Run = TypeVar("Run")


def noted(ledger: Path, kind: Callable[..., Run]) -> Iterator[Run]:
    """Yield the runs of a ledger in order. A line that was being written when the process ended is left out."""
    for line in ledger.read_text(encoding="utf-8").splitlines() if ledger.exists() else ():
        with contextlib.suppress(json.JSONDecodeError):
            yield kind(**json.loads(line))


def note(ledger: Path, run: Mapping[str, object]) -> None:
    """Add the values of a run, behind a line that was cut off too."""
    with ledger.open("ab+") as file:
        file.seek(max(file.tell() - 1, 0))
        behind = b"" if file.read(1) in (b"", b"\n") else b"\n"
        file.write(behind + json.dumps(run).encode() + b"\n")
