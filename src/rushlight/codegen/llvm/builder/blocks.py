"""Lines of LLVM text in basic blocks, which regions of kernels (`scope`) and whole functions share."""

from __future__ import annotations


class BasicBlocks:
    """The lines written so far; `label` is the current basic block."""

    __slots__ = ("label", "lines")

    label: str
    lines: list[str]

    def do(self, instruction: str) -> None:
        """Appends an instruction without a result."""
        self.lines.append(f"  {instruction}")

    def block(self, label: str) -> None:
        """Starts a basic block."""
        self.lines.append(f"{label}:")
        self.label = label

    def jump(self, label: str) -> None:
        """Ends the block with an unconditional branch."""
        self.lines.append(f"  br label %{label}")

    def branch(self, condition: str, yes: str, no: str) -> None:
        """Ends the block with a conditional branch."""
        self.lines.append(f"  br i1 {condition}, label %{yes}, label %{no}")
