"""Compiles a graph for the levels of a platform's processors, into one object with its C functions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from rushlight.build import with_index_asserts
from rushlight.build.core_code import core_text
from rushlight.build.flows import make_flow
from rushlight.build.pipeline import run_passes
from rushlight.build.segments import is_segmented
from rushlight.codegen.llvm.builder.target import CodeTarget
from rushlight.codegen.llvm.entry.entry import emit_entry
from rushlight.codegen.llvm.entry.flow import NativeFunction, emit_flow
from rushlight.codegen.llvm.interface.functions import emit_functions
from rushlight.codegen.llvm.interface.memory import emit_fused, emit_memory
from rushlight.codegen.llvm.interface.records import Interface, Variant
from rushlight.export.packaging.wasm_module import wasm_module
from rushlight.ir.gemm_tile import GemmTile
from rushlight.ir.graph import Graph, with_dense_outputs
from rushlight.ir.plan import ENTRY
from rushlight.ir.target import Target
from rushlight.runtime import elf, llvm
from rushlight.support.errors import fail
from rushlight.support.frozen import frozen
from rushlight.sym import format_size


@frozen
class Platform:
    """An operating system and an architecture: LLVM's triple, and a target of code for each level of processors."""

    triple: str
    levels: Mapping[int, str]


_X86_LEVELS = MappingProxyType({2: "x86-64-v2", 3: "x86-64-v3", 4: "x86-64-v4"})
_ARM_LEVELS = MappingProxyType({1: "aarch64"})
_WASM_LEVELS = MappingProxyType({1: "wasm32"})
_WITHOUT_FMA = 2

WASM = "wasm32"
"""The platform whose object becomes a module of WebAssembly."""
PLATFORMS: Mapping[str, Platform] = MappingProxyType(
    {
        "linux-x86_64": Platform("x86_64-unknown-linux-gnu", _X86_LEVELS),
        "linux-aarch64": Platform("aarch64-unknown-linux-gnu", _ARM_LEVELS),
        "windows-x86_64": Platform("x86_64-pc-windows-msvc", _X86_LEVELS),
        "macos-x86_64": Platform("x86_64-apple-macosx11.0.0", _X86_LEVELS),
        "macos-aarch64": Platform("arm64-apple-macosx11.0.0", _ARM_LEVELS),
        WASM: Platform("wasm32-unknown-unknown", _WASM_LEVELS),
    }
)

_SIZING = "sizing"
_DEFINITION = re.compile(r"^(?:define\b[^@\n]*|)@([\w.$-]+)(?=\(| =)", re.M)
_LINKAGE = re.compile(r"^define (?:internal |private )?", re.M)
_BODY = re.compile(r"^(define .*)\{$", re.M)
_DECLARATION = re.compile(r"^declare .*\n?", re.M)
_LIBRARY = frozenset({"memcpy", "memmove", "memset", "fma", "fmaf"})
"""What an object may take from the C library and its `libm`."""


@frozen
class Built:
    """An object, and what its checks say, by number."""

    obj: bytes
    messages: tuple[str, ...]


@frozen
class _Part:
    """The code for one level, the functions that it declares, what its checks say, and its entry."""

    text: str
    declared: tuple[str, ...]
    messages: tuple[str, ...]
    variant: Variant


class Objects:
    """The objects of a package. The code for a level of processors is made once, for whatever platforms have it."""

    def __init__(self, graph: Graph, interface: Interface) -> None:
        graph = with_dense_outputs(with_index_asserts(graph))
        self.code = _FlowCode(graph) if is_segmented(graph) else _PlanCode(graph)
        self.interface = interface
        self._parts: dict[str, _Part] = {}

    def build(self, platform: Platform, weights: bytes | None, alone: bool = False) -> Built:
        """The object for one platform. `weights` are bytes to put into it.

        All levels are functions of one module: each has its own features, and the C functions have the least. If
        `alone`, the object needs no C library, and no processor below level 3 can run it: fused products are library
        calls there.
        """
        if "x86_64" in platform.triple and llvm.host_target().architecture != "x86_64":
            fail("P011", "package: code for x86-64 is made on such a machine alone", platform=platform.triple)
        parts = [
            self._part(level, name) for level, name in platform.levels.items() if not alone or level != _WITHOUT_FMA
        ]
        least = llvm.target_named(next(iter(platform.levels.values())))
        variants = [part.variant for part in parts]
        texts = [part.text for part in parts]
        texts.append(emit_functions(self.interface, variants, least.architecture, embedded=weights is not None))
        if weights is not None:
            texts.append(_constant_text(f"{self.interface.name}_weights", weights))
        machine = Target(platform.triple, least.cpu, least.features, least.vector_bytes)
        text = "".join(dict.fromkeys(line for part in parts for line in part.declared)) + "\n".join(texts)
        if platform is PLATFORMS[WASM]:
            names = [f"{self.interface.name}_{function}" for function in ("arena_size", "level", "run")]
            obj = wasm_module(llvm.compile_object(text + emit_fused(), machine), names)
        else:
            obj = self._native(text, machine, alone)
        return Built(obj, parts[-1].messages)

    def _native(self, text: str, machine: Target, alone: bool) -> bytes:
        """An object; `alone` says whether it has what it needs of C's library."""
        obj = llvm.compile_object(text, machine)
        missing = _library_functions(obj)
        if alone and missing:
            obj = llvm.compile_object(text + emit_memory(missing), machine)
        return obj

    def _part(self, level: int, name: str) -> _Part:
        """The code for a level, whose target has this name."""
        if name not in self._parts:
            target, prefix = llvm.target_named(name), f"{self.interface.name}_{level}_"
            code = self.code.emit(target)
            own = _isolated(code.text, prefix, target)
            variant = Variant(level, prefix + ENTRY, prefix + _SIZING, code.needs_arena)
            declared = tuple(_DECLARATION.findall(own))
            self._parts[name] = _Part(_DECLARATION.sub("", own), declared, code.messages, variant)
        return self._parts[name]


class _PlanCode:
    """A graph that is one plan."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def emit(self, target: Target) -> _Code:
        """The code for a target."""
        code = _native_code(self.graph, target)
        return _Code(_with_cores(code.text, code.tiles), code.messages, code.needs_arena)


class _FlowCode:
    """A graph with branches and loops: native graphs, each with names of its own, and what runs them."""

    def __init__(self, graph: Graph) -> None:
        self.flow, self.natives = make_flow(graph)

    def emit(self, target: Target) -> _Code:
        """The code for a target."""
        texts: list[str] = []
        messages: list[str] = []
        tiles: list[GemmTile] = []
        functions: list[NativeFunction] = []
        for number, native in enumerate(self.natives):
            with native.within():
                code = _native_code(native.graph, target)
            prefix = f"native{number}_"
            sizing = prefix + _SIZING if code.needs_arena else None
            functions.append(NativeFunction(prefix + ENTRY, sizing, len(messages)))
            texts.append(_renamed(code.text, prefix))
            messages += code.messages
            tiles += code.tiles
        machine = CodeTarget(target.architecture, target.vector_bytes)
        text, own = emit_flow(self.flow, machine, functions, len(messages), _SIZING)
        return _Code(_with_cores("\n".join([*texts, text]), tiles), (*messages, *own), True)


@frozen
class _Code:
    """LLVM text with an entry, what its checks say by number, and the tiles of cores that it calls."""

    text: str
    messages: tuple[str, ...]
    needs_arena: bool
    tiles: tuple[GemmTile, ...] = ()


def _native_code(graph: Graph, target: Target) -> _Code:
    """The code of a graph that is one plan, with its sizing function."""
    code = run_passes(graph, target)
    plan = code.plan
    sizes_alone = replace(plan, launches=(), asserted=())
    sizing = emit_entry(sizes_alone, CodeTarget(target.architecture, target.vector_bytes), (), _SIZING)
    of_values = [check.message.format(size=format_size(check.size)) for check in graph.asserts]
    return _Code("\n".join((code.text, sizing)), (*code.messages, *of_values), bool(plan.slots), plan.tiles)


def _with_cores(text: str, tiles: Sequence[GemmTile]) -> str:
    """A text with the cores of matrix products in place of their declarations."""
    cores = dict([core_text(tile) for tile in dict.fromkeys(tiles)])
    text = _DECLARATION.sub(lambda found: "" if _declared_name(found[0]) in cores else found[0], text)
    return "\n".join([*cores.values(), text])


def _declared_name(declaration: str) -> str:
    return declaration.partition("@")[2].partition("(")[0]


def _renamed(text: str, prefix: str) -> str:
    """A module's text whose functions have a prefix."""
    names = sorted(set(_DEFINITION.findall(text)), key=len, reverse=True)
    pattern = re.compile(r"@(" + "|".join(map(re.escape, names)) + r")(?![\w.$-])")
    return pattern.sub(lambda found: f"@{prefix}{found[1]}", text)


def _isolated(text: str, prefix: str, target: Target) -> str:
    """A module's text whose functions are internal, have a prefix, and may use the target's features."""
    text = _LINKAGE.sub("define internal ", _renamed(text, prefix))
    features = f' "target-features"="{target.features}"' if target.features else ""
    return _BODY.sub(rf'\1"target-cpu"="{target.cpu}"{features} {{', text)


def _constant_text(name: str, data: bytes) -> str:
    escaped = "\\" + data.hex("\\") if data else ""
    return f'@{name} = private unnamed_addr constant [{len(data)} x i8] c"{escaped}", align 64\n'


def _library_functions(obj: bytes) -> set[str]:
    """What an object takes from the C library. C005 for what no C library has."""
    if obj[:4] != b"\x7fELF":
        return set()
    names = elf.ElfObject(obj).undefined()
    unknown = sorted(names - _LIBRARY)
    if unknown:
        fail("C005", f"package: the object needs unknown symbols: {', '.join(unknown)}")
    return names
