"""Functions over 64-bit words: sizes, contexts, descriptors; they return early where something does not hold."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.codegen.llvm.builder import sizes
from rushlight.codegen.llvm.builder.scope import Context, Scope
from rushlight.ir.plan import SymbolSource
from rushlight.ir.type import TensorType
from rushlight.sym import Size

CONTEXT_WORDS = 16
"""The words of a context that one entry makes for another."""
_HEADER_WORDS = 2


class WordFunction:
    """A function under construction, all of whose lines are those of one scope."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.scope: Scope = ctx.entry

    def size(self, size: Size) -> str:
        """The text of a size."""
        return sizes.size_text(self.ctx, size, self.scope)

    def leave_unless(self, condition: str, result: str) -> None:
        """Returns `result`, a type and a value, if the condition does not hold."""
        leave, stay = self.scope.names.label(), self.scope.names.label()
        self.scope.branch(condition, stay, leave)
        self.scope.block(leave)
        self.scope.do(f"ret {result}")
        self.scope.block(stay)

    def word(self, base: str, index: int) -> str:
        """The address of a word of an array."""
        return base if index == 0 else self.scope.let(f"getelementptr i64, ptr {base}, i64 {index}")

    def store_word(self, kind: str, value: str, base: str, index: int) -> None:
        """Stores a word of an array."""
        self.scope.do(f"store {kind} {value}, ptr {self.word(base, index)}, align 8")

    def load_word(self, kind: str, base: str, index: int) -> str:
        """Loads a word of an array."""
        return self.scope.let(f"load {kind}, ptr {self.word(base, index)}, align 8")

    def descriptor(self, type_: TensorType, address: str) -> str:
        """Writes the descriptor of a tensor; its address."""
        rank = len(type_.shape)
        words = self.ctx.allocate("i64", _HEADER_WORDS + 2 * rank)
        self.store_word("ptr", address, words, 0)
        self.store_word("i64", str(rank | type_.dtype.code << 8), words, 1)
        for at, size in enumerate((*type_.shape, *type_.strides), _HEADER_WORDS):
            self.store_word("i64", self.size(size), words, at)
        return words

    def load_symbol(self, source: SymbolSource, type_: TensorType, descriptor: str) -> str:
        """Loads a symbol's value from the descriptor of a tensor."""
        strides = len(type_.shape) if source.field == "stride" else 0
        return self.load_word("i64", descriptor, _HEADER_WORDS + source.dim + strides)

    def raise_word(self, value: str, base: str) -> None:
        """Raises the first word of an array to a size, if it is smaller."""
        self.store_word("i64", self.largest([self.load_word("i64", base, 0), value]), base, 0)

    def total(self, a: str, b: str) -> str:
        """The sum of two sizes."""
        if a.isdigit() and b.isdigit():
            return str(int(a) + int(b))
        return b if a == "0" else self.scope.let(f"add i64 {a}, {b}")

    def largest(self, texts: Sequence[str]) -> str:
        """The largest of some sizes, 0 if there are none."""
        largest = str(max([int(text) for text in texts if text.isdigit()], default=0))
        for text in dict.fromkeys([text for text in texts if not text.isdigit()]):
            largest = text if largest == "0" else self.scope.let(f"call i64 @llvm.smax.i64(i64 {largest}, i64 {text})")
        return largest
