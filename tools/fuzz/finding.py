"""What a fuzzer finds."""

from __future__ import annotations

from rushlight.support.frozen import frozen
from tools.fuzz.program import Program


@frozen(eq=False)
class Finding:
    """A program whose outcome is not the wanted one. `kind` groups findings in the summary: one cause, mostly."""

    kind: str
    program: Program
    detail: str

    def __str__(self) -> str:
        return f"--- {self.kind}: {self.detail}\n{self.program.script()}"
