"""From an exported program to the interface of its package: which sizes, pointers and weights it takes."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rushlight.build.flows import is_flow_step
from rushlight.build.segments import is_host
from rushlight.codegen.llvm.interface.records import Interface, SizeParameter, TensorParameter
from rushlight.eager.tensor import Tensor
from rushlight.export.inputs import Input
from rushlight.export.naming import argument_titles
from rushlight.export.program import ExportedProgram
from rushlight.ir.graph import Graph
from rushlight.ir.spec.leaf import FloatSpec
from rushlight.ir.type import TensorType, row_major
from rushlight.support.errors import fail
from rushlight.sym import SizeExpr

_LEAF = re.compile(r"a(\d+)")
_WORD = re.compile(r"\W+")
_KEYWORDS = frozenset(
    [
        "auto",
        "break",
        "case",
        "char",
        "const",
        "continue",
        "default",
        "do",
        "double",
        "else",
        "enum",
        "extern",
        "float",
        "for",
        "goto",
        "if",
        "inline",
        "int",
        "long",
        "register",
        "restrict",
        "return",
        "short",
        "signed",
        "sizeof",
        "static",
        "struct",
        "switch",
        "typedef",
        "union",
        "unsigned",
        "void",
        "volatile",
        "while",
        "alignas",
        "alignof",
        "bool",
        "constexpr",
        "false",
        "nullptr",
        "static_assert",
        "thread_local",
        "true",
        "typeof",
        "asm",
        "catch",
        "class",
        "delete",
        "explicit",
        "export",
        "friend",
        "mutable",
        "namespace",
        "new",
        "operator",
        "private",
        "protected",
        "public",
        "template",
        "this",
        "throw",
        "try",
        "typename",
        "using",
        "virtual",
    ]
)
"""Words that C or C++ keep for themselves."""
_EXAMPLE_NAMES = ("context", "threads", "weights", "need", "status", "count", "words", "min", "max")
"""Names of the C functions' other parameters, and of the example's variables."""


def interface_of(program: ExportedProgram, name: str, offsets: Mapping[str, int]) -> Interface:
    """The interface of a program's package; `offsets` tells where each weight lies, in bytes.

    P010 where a part of the program cannot run without Python.
    """
    require_native(program.graph)
    return _Maker(program, name, offsets).made()


def weights_of(program: ExportedProgram) -> dict[str, Tensor]:
    """The tensors that a program reads and never writes to, by name."""
    written = {position for position, _ in program.graph.mutations}
    return {
        str(source.target): _tensor(program, source)
        for position, source in enumerate(program.inputs)
        if source.kind in ("parameter", "buffer", "constant") and position not in written
    }


def states_of(program: ExportedProgram) -> dict[str, Tensor]:
    """The tensors of the program that a run writes to, by name."""
    sources = [program.inputs[position] for position, _ in program.graph.mutations]
    return {str(source.target): _tensor(program, source) for source in sources if source.kind != "argument"}


def _tensor(program: ExportedProgram, source: Input) -> Tensor:
    owned = program.state.constants if source.kind == "constant" else program.state.tensors
    return owned[str(source.target)]


def require_native(graph: Graph, asked: str = "package", flows: bool = True) -> None:
    """Errors with the name of what was asked for: P010 where a part of a graph cannot run without Python.

    With `flows` branches and loops can.
    """
    for call in graph.calls:
        if is_host(call) and not (flows and is_flow_step(call)):
            hint = "leave that part out of the program, and run it between two packages"
            fail(
                "P010", f"{asked}: {call.op.name} runs in Python alone", frame=next(iter(call.frames), None), hint=hint
            )
        if call.unbacked_symbols():
            hint = "return the mask, or the tensor before its rows are chosen"
            fail("P010", f"{asked}: a size is known only when the program runs", hint=hint)
    for inner in graph.inner:
        require_native(inner, asked, flows)


class _Maker:
    def __init__(self, program: ExportedProgram, name: str, offsets: Mapping[str, int]) -> None:
        self.program = program
        self.name = name
        self.offsets = offsets
        self.taken = {*_EXAMPLE_NAMES, name}
        self.written = {position for position, _ in program.graph.mutations}

    def made(self) -> Interface:
        """The interface."""
        opened = self.program.opened
        sizes: list[SizeParameter] = []
        for name, symbol in opened.symbols.items():
            if symbol in opened.bindings:
                sizes.append(self.size(self.named(name), symbol))
        titles = [self.named(title) for title in argument_titles(self.program.spec, self.program.names)]
        pairs = zip(self.program.inputs, self.program.graph.parameters, strict=True)
        tensors = [self.parameter(at, source, call.type, titles) for at, (source, call) in enumerate(pairs)]
        count = len(self.program.graph.outputs)
        for number, call in enumerate(self.program.graph.outputs):
            title = "result" if count == 1 else f"result{number}"
            tensors.append(TensorParameter("output", self.named(title), call.type, title))
        return Interface(self.name, tuple(sizes), tuple(tensors), opened.conditions)

    def size(self, name: str, symbol: SizeExpr) -> SizeParameter:
        """The parameter of a size."""
        facts, binding = symbol.facts, self.program.opened.bindings[symbol]
        sources = [source.target if source.kind == "argument" else None for source in self.program.inputs]
        shown = binding.dim is not None and binding.leaf in sources
        lower = 0 if facts.lower is None else facts.lower
        return SizeParameter(
            name,
            symbol,
            lower,
            facts.upper,
            facts.multiple_of,
            sources.index(binding.leaf) if shown else None,
            binding.dim or 0,
            binding.scale,
            binding.offset,
        )

    def parameter(self, position: int, source: Input, type_: TensorType, titles: list[str]) -> TensorParameter:
        """The parameter of one input of the graph."""
        written = position in self.written
        if source.kind == "argument":
            title = titles[int(source.target)]
            return TensorParameter("argument" if written else "input", title, _dense(type_, title), title)
        if source.kind in ("parameter", "buffer", "constant"):
            title = str(source.target)
            type_ = _dense(type_, title)
            if written:
                return TensorParameter("state", self.named(title), type_, title)
            return TensorParameter("weight", title, type_, title, self.offsets[title])
        if source.kind == "number":
            return self.number(str(source.target), type_, titles)
        return fail("P010", "package: the program draws random numbers", hint="pass the numbers as an argument")

    def number(self, text: str, type_: TensorType, titles: list[str]) -> TensorParameter:
        """The parameter of a number: one of the caller's as it is."""
        match = _LEAF.fullmatch(text)
        leaf = self.program.opened.leaves[int(match[1])] if match else None
        if isinstance(leaf, SizeExpr):
            title = titles[int(match[1])] if match else text
            return TensorParameter("size", title, type_, title, symbol=leaf)
        if isinstance(leaf, FloatSpec) and match:
            return TensorParameter("number", titles[int(match[1])], type_, titles[int(match[1])])
        hint = "compute it with tensors, or pass the result"
        return fail("P010", "package: a number is computed by Python at each call", number=text, hint=hint)

    def named(self, text: str) -> str:
        """A name of C that is not taken yet."""
        word = _WORD.sub("_", text).strip("_") or "value"
        if word[0].isdigit() or word in _KEYWORDS:
            word = f"{word}_" if word in _KEYWORDS else f"_{word}"
        while word in self.taken:
            word += "_"
        self.taken.add(word)
        return word


def _dense(type_: TensorType, name: str) -> TensorType:
    if row_major(type_) != type_:
        fail("P010", f"package: {name} is not row-major", type=type_, hint="pass x.contiguous() when you export")
    return type_
