"""The argument words of launches as text: addresses, sizes, and how they are stored for a kernel to read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from rushlight.codegen.llvm.builder import sizes
from rushlight.codegen.llvm.builder.scope import Context, Scope
from rushlight.ir.plan import Address
from rushlight.ir.scalar import Buffer
from rushlight.sym import Size


class LaunchArguments(ABC):
    """A function that launches kernels; whoever it is knows where buffers lie."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.scope: Scope = ctx.entry

    @abstractmethod
    def address(self, buffer: Buffer) -> str:
        """A buffer's address."""

    def size(self, size: Size) -> str:
        """The text of a size."""
        return sizes.size_text(self.ctx, size, self.scope)

    def argument(self, item: Buffer | Address | Size) -> tuple[str, str]:
        """The LLVM type and text of an argument word."""
        if isinstance(item, Buffer):
            return "ptr", self.address(item)
        if isinstance(item, Address):
            offset = self.size(item.offset * item.buffer.type.dtype.itemsize)
            return "ptr", self.scope.let(f"getelementptr i8, ptr {self.address(item.buffer)}, i64 {offset}")
        return "i64", self.size(item)

    def store(self, memory: str, words: Iterable[tuple[str, str]]) -> None:
        """Stores words one after the other."""
        for place, (kind, text) in enumerate(words):
            at = memory if place == 0 else self.scope.let(f"getelementptr i64, ptr {memory}, i64 {place}")
            self.scope.do(f"store {kind} {text}, ptr {at}, align 8")
