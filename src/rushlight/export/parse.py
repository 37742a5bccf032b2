"""Exported programs from text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType

from rushlight.capture.source import ArgumentSource
from rushlight.capture.values import Constant, Container, InputRef, Number, Output, SizeOf, Template
from rushlight.eager.tensor import Parameter, Tensor
from rushlight.export.inputs import Input, State
from rushlight.export.program import ExportedProgram
from rushlight.export.text import MAGIC
from rushlight.ir.graph import Graph
from rushlight.ir.graph_parse import TypeReader, parse_graph
from rushlight.ir.spec.specification import OpenSpec, ParamsSpec
from rushlight.ops import OPERATORS
from rushlight.support import lazy
from rushlight.support.errors import RushlightError, error, require
from rushlight.support.provenance import Frame
from rushlight.sym import Scope, SizeExpr
from rushlight.term import Reader, TermSyntaxError

KINDS = ("parameter", "buffer", "constant", "argument", "seed", "ordinal", "number")


def parse_program(text: str, tensors: Mapping[str, Tensor], constants: Mapping[str, Tensor]) -> ExportedProgram:
    """The program that `text` denotes, with its tensors. Errors: C009, with the line; P005 for another format."""
    try:
        return _program(text, tensors, constants)
    except RushlightError:
        raise
    except Exception as cause:  # a text that was changed can ask any rule for anything
        raise error("C009", f"export: the text is damaged: {type(cause).__name__}: {cause}") from cause


def _program(text: str, tensors: Mapping[str, Tensor], constants: Mapping[str, Tensor]) -> ExportedProgram:
    lines = text.split("\n")
    require(lines[0] == MAGIC, "P005", "export: not an exported program of this version", start=lines[0][:40])
    reader = _HeaderReader()
    for number, line in enumerate(lines[1:], 1):
        word, _, rest = line.partition(" ")
        rule = _RULES.get(word)
        if rule is None:
            break
        try:
            rule(reader, rest)
        except (TermSyntaxError, ValueError, IndexError, TypeError) as cause:
            raise error("C009", f"export: {cause} (line {number + 1})", text=line) from None
    else:
        raise error("C009", "export: the text has no graph")
    opened, result, names = reader.opened, reader.result, reader.names
    if opened is None or result is None or names is None:
        raise error("C009", "export: the text has no spec, arguments or result")
    sizes = "\n".join(reader.sizes)
    graph = parse_graph("\n".join([*([sizes] if sizes else []), *lines[number:]]), OPERATORS, opened.scope, reader.rows)
    kinds = reader.kinds
    lost = [name for name in kinds if name not in tensors]
    require(not lost, "P002", "export: the file lacks tensors", names=lost)
    tensors_by_name = {name: _as_kind(tensors[name], kind) for name, kind in kinds.items()}
    state = State(tensors_by_name, kinds, reader.ties, constants)
    template = reader.template(result)
    _require_parts(template, len(graph.outputs), len(opened.leaves))
    _require_types(graph, reader.inputs, {**constants, **tensors_by_name})
    return ExportedProgram(graph, opened, names, reader.inputs, template, reader.draws, state)


def _as_kind(tensor: Tensor, kind: str) -> Tensor:
    return Parameter(tensor.detach(), tensor.requires_grad) if kind == "parameter" else tensor


def _require_parts(template: Template, outputs: int, leaves: int) -> None:
    """C009 where a result is made of other outputs than the graph has."""
    used: list[int] = []
    stack = [template]
    while stack:
        part = stack.pop()
        if isinstance(part, Container):
            stack.extend(part.items)
        elif isinstance(part, Output):
            used.append(part.place)
        elif isinstance(part, InputRef) and isinstance(part.source, ArgumentSource):
            require(part.source.position < leaves, "C009", "export: there is no such argument", result=str(part))
    fits = sorted(set(used)) == list(range(outputs))
    require(fits, "C009", "export: the result is of other outputs", outputs=outputs)


def _require_types(graph: Graph, inputs: Sequence[Input], tensors: Mapping[str, Tensor]) -> None:
    """P002 where a tensor is not what the graph takes."""
    require(len(inputs) == len(graph.parameters), "C009", "export: the graph has other inputs", inputs=len(inputs))
    for source, call in zip(inputs, graph.parameters, strict=True):
        if source.kind in ("parameter", "buffer", "constant"):
            form = tensors[str(source.target)].form if source.target in tensors else None
            same = form is not None and form.dtype is call.type.dtype and tuple(form.shape) == call.type.shape
            require(same, "P002", f"export: {source.target} is not the tensor that the graph takes", type=call.type)


class _HeaderReader:
    """Reads what stands before the graph, line by line."""

    def __init__(self) -> None:
        self.opened: OpenSpec | None = None
        self.names: tuple[str, ...] | None = None
        self.inputs: list[Input] = []
        self.kinds: dict[str, str] = {}
        self.ties: dict[str, str] = {}
        self.draws = 0
        self.result: str | None = None
        self.sizes: list[str] = []
        self.frames: list[Frame] = []
        self.rows: list[tuple[Frame, ...]] = []

    def spec(self, text: str) -> None:
        """What is assumed of the arguments."""
        self.opened = ParamsSpec.parse(text).open(Scope())

    def arguments(self, text: str) -> None:
        """The names of positional arguments."""
        self.names = tuple([str(name) for name in lazy.json.loads(text)])

    def input(self, text: str) -> None:
        """What feeds an input of the graph."""
        name, _, source = text.partition(" = ")
        kind, _, target = source.partition(" ")
        if kind not in KINDS or not name.startswith("%"):
            raise TermSyntaxError("expected `input %NAME = KIND TARGET`")
        self.inputs.append(Input(kind, name[1:], lazy.json.loads(target)))

    def state(self, text: str, kind: str) -> None:
        """A tensor of the module."""
        self.kinds[lazy.json.loads(text)] = kind

    def tie(self, text: str) -> None:
        """Another name of a tensor."""
        reader = Reader(text, _Atoms(Scope()))
        name, other = reader.value(), reader.value()
        self.ties[name] = other

    def drawn(self, text: str) -> None:
        """How many random calls a run makes."""
        self.draws = int(text)

    def returned(self, text: str) -> None:
        """What a run returns; it may name sizes, which come later."""
        self.result = text

    def size(self, text: str) -> None:
        """A size that only a run tells."""
        self.sizes.append(f"size {text}")

    def line(self, text: str) -> None:
        """A line of the user's program."""
        reader = Reader(text, _Atoms(Scope()))
        reader.value()
        filename, line, function, source = [reader.value() for _ in range(4)]
        self.frames.append(Frame(filename, line, function, source))

    def row(self, text: str) -> None:
        """The lines that a call stands in, innermost first."""
        self.rows.append(tuple([self.frames[place] for place in lazy.json.loads(text.partition(" = ")[2])]))

    def template(self, text: str) -> Template:
        """What a run returns."""
        assert self.opened is not None
        reader = Reader(text, _Atoms(self.opened.scope))
        template = _template(reader)
        if reader.peek():
            raise error("C009", f"export: unexpected {reader.peek()!r} at the end of the line", text=text)
        return template


_RULES: Mapping[str, Callable[[_HeaderReader, str], None]] = MappingProxyType(
    {
        "spec": _HeaderReader.spec,
        "arguments": _HeaderReader.arguments,
        "input": _HeaderReader.input,
        "parameter": partial(_HeaderReader.state, kind="parameter"),
        "buffer": partial(_HeaderReader.state, kind="buffer"),
        "volatile": partial(_HeaderReader.state, kind="volatile"),
        "tie": _HeaderReader.tie,
        "draws": _HeaderReader.drawn,
        "result": _HeaderReader.returned,
        "size": _HeaderReader.size,
        "line": _HeaderReader.line,
        "lines": _HeaderReader.row,
    }
)


class _Atoms(TypeReader):
    """The words of a result."""

    def parse_atom(self, word: str, reader: Reader) -> object:
        """An output, an argument, a number, or a size."""
        if word == "output":
            return Output(int(reader.next()))
        if word == "argument":
            return InputRef(ArgumentSource(int(reader.next())))
        if word == "number":
            return Number(reader.value())
        atom = super().parse_atom(word, reader)
        return SizeOf(atom) if isinstance(atom, SizeExpr) else atom


def _template(reader: Reader) -> Template:
    for opening, closing, kind in (("(", ")", tuple), ("[", "]", list)):
        if reader.accept(opening):
            items: list[Template] = []
            while not reader.accept(closing):
                items.append(_template(reader))
                reader.accept(",")
            return Container(kind, tuple(items))
    if reader.accept("{"):
        entries: list[tuple[object, Template]] = []
        while not reader.accept("}"):
            key = reader.value()
            reader.expect(":")
            entries.append((key, _template(reader)))
            reader.accept(",")
        return Container(dict, tuple([value for _, value in entries]), tuple([key for key, _ in entries]))
    result = reader.value()
    return result if isinstance(result, (Output, InputRef, Number, SizeOf)) else Constant(result)
