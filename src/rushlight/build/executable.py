"""The result of compilation: one native entry point and its contract."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import NoReturn

from rushlight.ir.dtype import BY_NAME
from rushlight.ir.gemm_tile import GemmTile
from rushlight.ir.graph import Graph, ValueAssert
from rushlight.ir.plan import ENTRY, ONCE
from rushlight.ir.sizes import bind_symbols
from rushlight.ir.type import CPU, TensorType, symbols_in
from rushlight.runtime import context, descriptor, native
from rushlight.runtime.llvm import LoadedModule
from rushlight.support.errors import fail
from rushlight.support.frozen import frozen
from rushlight.sym import Size, SizeExpr, evaluate, free_symbols, is_symbol, scopes_of, simplify, to_python

Shapes = Sequence[Sequence[int]]
Layouts = tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
Commit = tuple[Sequence[object], Sequence[object], Sequence[object], Sequence[object]]
"""Writes to Python objects that go with a call: calls, items, attributes and versions (`runtime.commit_text`)."""


@frozen
class Once:
    """The executable that runs once before another: the parameters it `reads`, and its results' types.

    `reads` are positions. Types are dtype names and shapes; results are row-major.
    """

    reads: tuple[int, ...]
    results: tuple[tuple[str, tuple[int, ...]], ...]

    def types(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """The results' types: on the device of the tensors among a graph's inputs."""
        device = next((type_.device for type_ in inputs if type_.shape), CPU)
        return tuple([TensorType(shape, BY_NAME[name], device) for name, shape in self.results])

    @property
    def nbytes(self) -> int:
        """The memory that the results take."""
        return sum([math.prod(shape) * BY_NAME[name].itemsize for name, shape in self.results])


@frozen
class Summary:
    """Facts about a compilation, kept beside the object in the cache."""

    launches: int
    kernels: int
    arena_hint_bytes: int
    messages: tuple[str, ...] = ()
    tiles: tuple[GemmTile, ...] = ()
    compile_ns: int = 0
    once: Once | None = None
    choices: tuple[tuple[str, str], ...] = ()
    """What a chooser noted of its tiles."""

    def to_json(self) -> bytes:
        """As JSON text."""
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def from_json(text: bytes) -> Summary:
        """From JSON text."""
        values = json.loads(text)
        values["messages"] = tuple(values["messages"])
        values["tiles"] = tuple([GemmTile(**tile) for tile in values["tiles"]])
        values["choices"] = tuple([(name, text) for name, text in values["choices"]])
        once = values["once"]
        if once is not None:
            results = tuple([(name, tuple(shape)) for name, shape in once["results"]])
            values["once"] = Once(tuple(once["reads"]), results)
        return Summary(**values)


class Executable(ABC):
    """Runs one graph; immutable and re-entrant.

    `launch` takes the addresses of descriptors, inputs then outputs. `infer_outputs` gives the outputs' shapes and
    strides for concrete shapes of the inputs. `cached` says that nothing was compiled for it.

    Where `once` is an executable, it runs on the inputs that it `reads` before the first launch, and again after one of
    them has changed; its outputs are further inputs, behind the graph's.
    """

    __slots__ = ("_infer", "_scopes", "cached", "input_types", "once", "output_types", "reads", "summary")

    def __init__(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], summary: Summary, cached: bool
    ) -> None:
        self.input_types = tuple(inputs)
        self.output_types = tuple(outputs)
        self.once: Executable | None = None
        self.reads: tuple[int, ...] = ()
        self.summary = summary
        self.cached = cached
        self._scopes = scopes_of(symbols_in((*inputs, *outputs)))  # sizes are asked when results are first inferred
        self._infer: Callable[[Shapes], Layouts] | None = None

    def launcher(self, work: int) -> Callable[[descriptor.ArgumentBlock], None]:
        """Return the launcher for argument blocks of one plan; each call is an amount `work` of work."""
        return lambda sheet: self.launch(sheet.addresses, work)

    def short_entry(self, work: int) -> int | None:
        """The address of code that may run with the interpreter lock held, where calls are short; else None."""
        return None

    def committer(self, work: int) -> Callable[[descriptor.ArgumentBlock, Commit], None]:
        """Return the launcher for an argument block and a commit.

        The commit is made with the writes to inputs: all of them or none.
        """
        return lambda sheet, commit: self.launch(sheet.addresses, work, (commit,))

    @abstractmethod
    def launch(self, addresses: Sequence[int], work: int, commit: tuple[Commit, ...] = ()) -> None:
        """Runs on the descriptors at these addresses. `work` estimates how long that may take: `work_of` the shapes.

        `commit` is empty, or has the one commit that goes with the call.
        """

    def work_of(self, shapes: Shapes) -> int:
        """A rough count of the scalar operations of a call with inputs and outputs of these shapes."""
        return max([math.prod(shape) for shape in shapes], default=0) * self.summary.launches

    def infer_outputs(self, shapes: Shapes) -> Layouts:
        """The outputs' shapes and strides for these input shapes."""
        if self._infer is None:
            self._infer = self._make_infer()
        return self._infer(shapes)

    def _make_infer(self) -> Callable[[Shapes], Layouts]:
        names: dict[SizeExpr, str] = {}
        for position, type_ in enumerate(self.input_types):
            for dim, size in enumerate(map(simplify, type_.shape)):
                if isinstance(size, SizeExpr) and is_symbol(size):
                    names.setdefault(size, f"(shapes[{position}][{dim}])")
        outputs: list[str] = []
        for type_ in self.output_types:
            # What is known of sizes may say that one which no input has as its own is that of another.
            sizes, steps = ([simplify(size) for size in part] for part in (type_.shape, type_.strides))
            for size in sizes:
                for symbol in free_symbols(size):
                    if symbol not in names:
                        fail("X001", f"output size {size} is not a function of the inputs' sizes")
            all_known = all(symbol in names for stride in steps for symbol in free_symbols(stride))
            # Strides that no size tells are those of dims of size 1: any will do.
            outputs.append(f"({_tuple_text(sizes, names)}, {_tuple_text(steps, names) if all_known else None}),")
        function: Callable[[Shapes], Layouts] = eval(f"lambda shapes: ({''.join(outputs)})")  # noqa: S307 - our own text
        return function


def _tuple_text(sizes: Sequence[Size], names: Mapping[SizeExpr, str]) -> str:
    return f"({''.join([f'{to_python(size, names)},' for size in sizes])})"


def commit_on_host(writes: Iterable[tuple[object, object]], commit: tuple[Commit, ...]) -> None:
    """Overwrites arrays with others, and makes the commit if there is one, all in one native call."""
    arrays = [part for target, value in writes for part in (target, ..., value)]
    calls, items, attributes, versions = commit[0] if commit else ((), (), (), ())
    native.functions().commit((calls, [*arrays, *items], attributes, versions))


def types_of(graph: Graph) -> tuple[list[TensorType], list[TensorType]]:
    """The types of a graph's inputs and outputs."""
    return [call.type for call in graph.parameters], [call.type for call in graph.outputs]


def fail_assert(check: ValueAssert, symbols: Mapping[SizeExpr, int]) -> NoReturn:
    """Raises the error of an assert of a value; `symbols` are those of the call."""
    size = simplify(check.size)
    known = {simplify(symbol): value for symbol, value in symbols.items()}
    if all(symbol in known for symbol in free_symbols(size)):
        size = evaluate(size, {symbol: value for symbol, value in known.items() if isinstance(symbol, SizeExpr)})
    fail(check.code, check.message.format(size=size), frame=check.frame)


class NativeExecutable(Executable):
    """Compiled code: one native entry point. `asserts` are those of values; `key` is the cache's, if it has one."""

    __slots__ = ("_entry", "_module", "asserts", "key")

    def __init__(
        self,
        inputs: Sequence[TensorType],
        outputs: Sequence[TensorType],
        module: LoadedModule,
        summary: Summary,
        cached: bool,
        entry: str = ENTRY,
    ) -> None:
        super().__init__(inputs, outputs, summary, cached)
        self.asserts: tuple[ValueAssert, ...] = ()
        self.key: str | None = None
        self._module = module
        self._entry = module.address(entry)

    @staticmethod
    def of_graph(graph: Graph, module: LoadedModule, summary: Summary, cached: bool) -> NativeExecutable:
        """The executable of a graph, with the executable that runs once before it."""
        inputs, outputs = types_of(graph)
        once = summary.once
        made = () if once is None else once.types(inputs)
        executable = NativeExecutable([*inputs, *made], outputs, module, summary, cached)
        executable.asserts = graph.asserts
        if once is None:
            return executable
        executable.once = NativeExecutable([inputs[at] for at in once.reads], made, module, summary, cached, ONCE)
        executable.reads = once.reads
        return executable

    def symbol(self, name: str) -> int | None:
        """The address of a function or variable of its code; None if the code has none of that name."""
        return self._module.address(name) if name in self._module.names() else None

    def launch(self, addresses: Sequence[int], work: int, commit: tuple[Commit, ...] = ()) -> None:
        """Runs natively; a failed assert of sizes is error R002 with its message, one of values has its own."""
        _keep, pointer = descriptor.pointers(addresses)
        status = context.call(self._entry, pointer, work, commit)
        if status:
            self._fail(status, addresses)

    def short_entry(self, work: int) -> int | None:
        """The entry's address, where calls are short."""
        return self._entry if work < context.RELEASE_ABOVE_WORK else None

    def launcher(self, work: int) -> Callable[[descriptor.ArgumentBlock], None]:
        """Return the launcher for argument blocks of one plan; short calls take the shortest way."""
        entry = self._entry
        if work >= context.RELEASE_ABOVE_WORK:

            def launch_long(sheet: descriptor.ArgumentBlock) -> None:
                status = context.call(entry, sheet.pointer, work)
                if status:
                    self._fail(status, sheet.addresses)

            return launch_long
        local, call = context.LOCAL, context.current().call_short

        def launch_short(sheet: descriptor.ArgumentBlock) -> None:
            try:
                here = local.context
            except AttributeError:
                here = context.current()
            status = call(entry, here.address, sheet.pointer)
            if status:
                status = here.settle(status, call, entry, sheet.pointer)
                if status:
                    self._fail(status, sheet.addresses)

        return launch_short

    def committer(self, work: int) -> Callable[[descriptor.ArgumentBlock, Commit], None]:
        """Return the launcher for an argument block and a commit."""
        entry = self._entry

        def launch(sheet: descriptor.ArgumentBlock, commit: Commit) -> None:
            status = context.call(entry, sheet.pointer, work, (commit,))
            if status:
                self._fail(status, sheet.addresses)

        return launch

    def _fail(self, status: int, addresses: Sequence[int]) -> NoReturn:
        number, messages = status - context.FIRST_ASSERT, self.summary.messages
        if number < len(messages):
            fail("R002", messages[number])
        symbols: dict[SizeExpr, int] = {}
        for type_, address in zip(self.input_types, addresses, strict=False):
            _, shape, strides = descriptor.read(address, len(type_.shape))
            bind_symbols(type_, shape, strides, symbols)
        fail_assert(self.asserts[number - len(messages)], symbols)
