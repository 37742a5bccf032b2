"""Emits what a C program calls: `NAME_level`, `NAME_arena_size` and `NAME_run`.

They check sizes and pointers, write descriptors and a context, and call the entry of the variant that suits the
processor. All their memory is on the stack: a package has no variables, so its functions can run on any threads at
once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from rushlight.codegen.llvm.builder.function_builder import FunctionBuilder
from rushlight.codegen.llvm.builder.functions import function_text
from rushlight.codegen.llvm.builder.scope import Context
from rushlight.codegen.llvm.builder.target import CodeTarget
from rushlight.codegen.llvm.entry import entry
from rushlight.codegen.llvm.entry.words import CONTEXT_WORDS, WordFunction
from rushlight.codegen.llvm.interface.processor import emit_level
from rushlight.codegen.llvm.interface.records import (
    PARALLEL_DATA,
    PARALLEL_FUNCTION,
    STATUS_ALIGNMENT,
    STATUS_ARENA,
    STATUS_NULL,
    STATUS_PROCESSOR,
    STATUS_RANGE,
    Interface,
    TensorParameter,
    Variant,
)
from rushlight.ir.kernel import Kernel
from rushlight.ir.plan import ALIGNMENT

_ARENA, _ARENA_BYTES, _WEIGHTS, _PARALLEL, _DATA, _THREADS, _LEVEL = range(7)
"""Words of the caller's struct."""


def emit_functions(interface: Interface, variants: Sequence[Variant], architecture: str, embedded: bool) -> str:
    """The text of the three functions, and of what they need.

    If `embedded`, weights are the constant `NAME_weights`; else the caller passes their address.
    """
    name = interface.name
    asks = architecture == "x86_64"
    texts = [
        f"@{name}_never = private unnamed_addr constant i8 0",
        _emit_serial(f"{name}_serial"),
        _emit_parallel(f"{name}_parallel"),
        emit_level(f"{name}_find_level") if asks else "",
        _emit_public_level(name, asks),
        _Sizing(interface, variants, architecture).emit(),
        _Run(interface, variants, architecture, f"@{name}_weights" if embedded else None).emit(),
    ]
    return "\n".join(texts)


def _emit_serial(name: str) -> str:
    """Runs a parallel loop on the calling thread."""
    code = FunctionBuilder(f"define internal void @{name}(ptr %ctx, ptr %task, ptr %args, i64 %count, i64 %grain)")
    code.do("call void %task(ptr %args, i64 0, i64 %count)")
    return code.finish()


def _emit_parallel(name: str) -> str:
    """Hands a parallel loop to the caller's function."""
    code = FunctionBuilder(f"define internal void @{name}(ptr %ctx, ptr %task, ptr %args, i64 %count, i64 %grain)")
    function = code.load_word("function", "%ctx", PARALLEL_FUNCTION, "ptr")
    data = code.load_word("data", "%ctx", PARALLEL_DATA, "ptr")
    code.do(f"call void {function}(ptr {data}, ptr %task, ptr %args, i64 %count, i64 %grain)")
    return code.finish()


def _emit_public_level(name: str, asks: bool) -> str:
    code = FunctionBuilder(f"define i64 @{name}_level()")
    return code.finish(f"i64 {code.let('level', f'call i64 @{name}_find_level()') if asks else 1}")


class _Function(WordFunction):
    """One function over the sizes of the interface."""

    def __init__(self, interface: Interface, variants: Sequence[Variant], architecture: str) -> None:
        self.interface = interface
        self.variants = sorted(variants, key=lambda variant: -variant.level)
        self.asks = architecture == "x86_64"
        super().__init__(Context(Kernel("interface", (), (), ()), CodeTarget(architecture, 16), {}))
        for number, parameter in enumerate(interface.sizes):
            self.scope.sizes[parameter.symbol] = f"%size{number}"

    def size_parameters(self) -> list[str]:
        return [f"i64 %size{number}" for number in range(len(self.interface.sizes))]

    def text(self, header: str) -> str:
        """The function's text; every path has returned."""
        self.ctx.close()
        return function_text(header, self.ctx.allocations, self.scope.lines)

    def check_sizes(self, result: str) -> None:
        """Returns `result` unless all sizes are in their ranges."""
        let = self.scope.let
        for number, parameter in enumerate(self.interface.sizes):
            self.leave_unless(let(f"icmp sge i64 %size{number}, {parameter.lower}"), result)
            if parameter.upper is not None:
                self.leave_unless(let(f"icmp sle i64 %size{number}, {parameter.upper}"), result)
            if parameter.multiple_of > 1:
                rest = let(f"srem i64 %size{number}, {parameter.multiple_of}")
                self.leave_unless(let(f"icmp eq i64 {rest}, 0"), result)
        for condition in self.interface.conditions:
            self.leave_unless(
                let(f"icmp {entry.RELATIONS[condition.relation]} i64 {self.size(condition.expr)}, 0"), result
            )

    def describe(self, address: Callable[[TensorParameter], str]) -> str:
        """Writes the descriptors; where their addresses lie, in order."""
        tensors = self.interface.tensors
        pointers = self.ctx.allocate("i64", max(len(tensors), 1))
        for number, tensor in enumerate(tensors):
            self.store_word("ptr", self.descriptor(tensor.type, address(tensor)), pointers, number)
        return pointers

    def context(self, filled: Iterable[tuple[int, str, str]]) -> str:
        """Writes a context with these words and zeros."""
        words = self.ctx.allocate("i64", CONTEXT_WORDS)
        self.scope.do(f"store [{CONTEXT_WORDS} x i64] zeroinitializer, ptr {words}, align 8")
        for index, kind, value in filled:
            self.store_word(kind, value, words, index)
        return words


class _Sizing(_Function):
    """Emits `i64 NAME_arena_size(threads, sizes...)`: the most that a variant needs, or minus a status.

    Those of other processors are not asked: what computes their sizes is code of these too.
    """

    def emit(self) -> str:
        """The function's text."""
        self.check_sizes(f"i64 {-STATUS_RANGE}")
        let, asked = self.scope.let, [variant for variant in self.variants if variant.needs_arena]
        threads = let("call i64 @llvm.smax.i64(i64 %threads, i64 1)")
        need = self.ctx.allocate("i64")
        self.store_word("i64", "0", need, 0)
        if asked:
            pointers = self.describe(lambda tensor: "null")
            context = self.context([(entry.THREADS, "i64", threads)])
            level = let(f"call i64 @{self.interface.name}_find_level()") if self.asks else None
            for variant in asked:
                self._ask(variant, level, f"ptr {context}, ptr {pointers}", context, need)
        self.scope.do(f"ret i64 {self.load_word('i64', need, 0)}")
        parameters = ", ".join(["i64 %threads", *self.size_parameters()])
        return self.text(f"define i64 @{self.interface.name}_arena_size({parameters})")

    def _ask(self, variant: Variant, level: str | None, arguments: str, context: str, need: str) -> None:
        """Takes what a variant needs, if the processor's level can run it."""
        let, scope = self.scope.let, self.scope
        ask, after = scope.names.label(), scope.names.label()
        if level is not None:
            scope.branch(let(f"icmp sge i64 {level}, {variant.level}"), ask, after)
            scope.block(ask)
        status = let(f"call i64 @{variant.sizing}({arguments})")
        failed = let(f"sub i64 0, {status}")
        self.leave_unless(let(f"icmp ule i64 {status}, {STATUS_ARENA}"), f"i64 {failed}")
        wanted = self.load_word("i64", context, entry.ARENA_NEED)
        self.raise_word(wanted, need)
        if level is not None:
            scope.jump(after)
            scope.block(after)


class _Run(_Function):
    """Emits `i32 NAME_run(context, sizes..., pointers...)`. `weights` is the text of their address, if it is known."""

    def __init__(
        self, interface: Interface, variants: Sequence[Variant], architecture: str, weights: str | None
    ) -> None:
        super().__init__(interface, variants, architecture)
        self.weights = weights

    def emit(self) -> str:
        """The function's text."""
        interface, scope = self.interface, self.scope
        let = scope.let
        passed = {tensor: f"%value{number}" for number, tensor in enumerate(interface.passed)}
        pointers = ["%context", *[text for tensor, text in passed.items() if tensor.kind != "number"]]
        for pointer in pointers:
            self.leave_unless(let(f"icmp ne ptr {pointer}, null"), f"i32 {STATUS_NULL}")
        self.check_sizes(f"i32 {STATUS_RANGE}")
        arena = self.load_word("ptr", "%context", _ARENA)
        low = let(f"and i64 {let(f'ptrtoint ptr {arena} to i64')}, {ALIGNMENT - 1}")
        self.leave_unless(let(f"icmp eq i64 {low}, 0"), f"i32 {STATUS_ALIGNMENT}")
        weights = self.weights or "null"
        if interface.has_weights and self.weights is None:
            weights = self.load_word("ptr", "%context", _WEIGHTS)
            self.leave_unless(let(f"icmp ne ptr {weights}, null"), f"i32 {STATUS_NULL}")
        descriptors = self.describe(lambda tensor: self.address(tensor, passed, weights))
        self.dispatch(self.call_context(arena), descriptors)
        parameters = ["ptr %context", *self.size_parameters()]
        parameters += [f"{'double' if tensor.kind == 'number' else 'ptr'} {text}" for tensor, text in passed.items()]
        return self.text(f"define i32 @{interface.name}_run({', '.join(parameters)})")

    def address(self, tensor: TensorParameter, passed: dict[TensorParameter, str], weights: str) -> str:
        """The address of a tensor's first element."""
        if tensor.kind == "weight":
            return self.scope.let(f"getelementptr i8, ptr {weights}, i64 {tensor.offset}")
        if tensor.kind not in ("number", "size"):
            return passed[tensor]
        memory = self.ctx.allocate("i64")
        if tensor.kind == "number":
            self.store_word("double", passed[tensor], memory, 0)
        else:
            assert tensor.symbol is not None
            self.store_word("i64", self.size(tensor.symbol), memory, 0)
        return memory

    def call_context(self, arena: str) -> str:
        """The context of the entry: the caller's arena and parallel loop, on one thread where there is none."""
        let, name = self.scope.let, self.interface.name
        function = self.load_word("ptr", "%context", _PARALLEL)
        is_serial = let(f"icmp eq ptr {function}, null")
        loop = let(f"select i1 {is_serial}, ptr @{name}_serial, ptr @{name}_parallel")
        given = let(f"call i64 @llvm.smax.i64(i64 {self.load_word('i64', '%context', _THREADS)}, i64 1)")
        return self.context(
            [
                (entry.ARENA, "ptr", arena),
                (entry.ARENA_BYTES, "i64", self.load_word("i64", "%context", _ARENA_BYTES)),
                (entry.PARALLEL_FOR, "ptr", loop),
                (entry.INTERRUPT, "ptr", f"@{name}_never"),
                (entry.THREADS, "i64", let(f"select i1 {is_serial}, i64 1, i64 {given}")),
                (PARALLEL_DATA, "ptr", self.load_word("ptr", "%context", _DATA)),
                (PARALLEL_FUNCTION, "ptr", function),
            ]
        )

    def dispatch(self, context: str, descriptors: str) -> None:
        """Calls the first variant that the processor can run."""
        let, scope = self.scope.let, self.scope
        if not self.asks:
            (variant,) = self.variants
            self.call(variant, context, descriptors)
            return
        level = self.load_word("i64", "%context", _LEVEL)
        before, ask, known = scope.label, scope.names.label(), scope.names.label()
        scope.branch(let(f"icmp eq i64 {level}, 0"), ask, known)
        scope.block(ask)
        found = let(f"call i64 @{self.interface.name}_find_level()")
        scope.jump(known)
        scope.block(known)
        level = let(f"phi i64 [ {level}, %{before} ], [ {found}, %{ask} ]")
        for variant in self.variants:
            runs, others = scope.names.label(), scope.names.label()
            scope.branch(let(f"icmp sge i64 {level}, {variant.level}"), runs, others)
            scope.block(runs)
            self.call(variant, context, descriptors)
            scope.block(others)
        scope.do(f"ret i32 {STATUS_PROCESSOR}")

    def call(self, variant: Variant, context: str, descriptors: str) -> None:
        """Returns what an entry returns."""
        status = self.scope.let(f"call i64 @{variant.entry}(ptr {context}, ptr {descriptors})")
        self.scope.do(f"ret i32 {self.scope.let(f'trunc i64 {status} to i32')}")
