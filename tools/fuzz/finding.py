"""What a fuzzer finds."""

from __future__ import annotations

from typing import Any

from rushlight.support.frozen import frozen


@frozen(eq=False)
class Finding:
    """A program, or a call, whose outcome is not the wanted one.

    `kind` groups findings in the summary: one cause, mostly.
    """

    kind: str
    program: Any  # what its fuzzer draws: with a seed, a number and a script
    detail: str

    def __str__(self) -> str:
        return f"--- {self.kind}: {self.detail}\n{self.program.script()}"
