"""Emits the arguments of launches: addresses and sizes, stored as the 64-bit words that a kernel reads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from rushlight.codegen.llvm.entry.words import WordFunction
from rushlight.ir.plan import Address
from rushlight.ir.scalar import Buffer
from rushlight.sym import Size


class LaunchArguments(WordFunction, ABC):
    """A function that launches kernels; subclasses give the addresses of buffers."""

    @abstractmethod
    def address(self, buffer: Buffer) -> str:
        """A buffer's address."""

    def argument(self, arg: Buffer | Address | Size) -> tuple[str, str]:
        """The LLVM type and text of an argument."""
        if isinstance(arg, Buffer):
            return "ptr", self.address(arg)
        if isinstance(arg, Address):
            offset = self.size(arg.offset * arg.buffer.type.dtype.itemsize)
            return "ptr", self.scope.let(f"getelementptr i8, ptr {self.address(arg.buffer)}, i64 {offset}")
        return "i64", self.size(arg)

    def store(self, memory: str, args: Iterable[tuple[str, str]]) -> None:
        """Stores arguments as consecutive 64-bit words."""
        for index, (kind, text) in enumerate(args):
            self.store_word(kind, text, memory, index)
