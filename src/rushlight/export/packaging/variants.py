"""Compiles a graph for the levels of a platform's processors, into one object with its C functions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from rushlight.build import with_index_asserts
from rushlight.build.core_code import core_text
from rushlight.build.pipeline import run_passes
from rushlight.codegen.llvm.builder.target import CodeTarget
from rushlight.codegen.llvm.entry.entry import emit_entry
from rushlight.codegen.llvm.interface.functions import emit_functions
from rushlight.codegen.llvm.interface.memory import emit_fused, emit_memory
from rushlight.codegen.llvm.interface.records import Interface, Variant
from rushlight.export.packaging.wasm_module import wasm_module
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
        self.graph = with_dense_outputs(with_index_asserts(graph))
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
        of_values = tuple([check.message.format(size=format_size(check.size)) for check in self.graph.asserts])
        return Built(obj, (*parts[-1].messages, *of_values))

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
            text, messages, needs_arena = _module_text(self.graph, target)
            own = _isolated(text, prefix, target)
            variant = Variant(level, prefix + ENTRY, prefix + _SIZING, needs_arena)
            declared = tuple(_DECLARATION.findall(own))
            self._parts[name] = _Part(_DECLARATION.sub("", own), declared, messages, variant)
        return self._parts[name]


def _module_text(graph: Graph, target: Target) -> tuple[str, tuple[str, ...], bool]:
    """The text of a plan and its sizing function, its messages, and whether it has an arena."""
    code = run_passes(graph, target)
    plan = code.plan
    sizes_alone = replace(plan, launches=(), asserted=())
    sizing = emit_entry(sizes_alone, CodeTarget(target.architecture, target.vector_bytes), (), _SIZING)
    cores = [core_text(tile) for tile in dict.fromkeys(plan.tiles)]
    made = {name for name, _ in cores}
    text = _DECLARATION.sub(lambda found: "" if _declared_name(found[0]) in made else found[0], code.text)
    return "\n".join([*[part for _, part in cores], text, sizing]), code.messages, bool(plan.slots)


def _declared_name(declaration: str) -> str:
    return declaration.partition("@")[2].partition("(")[0]


def _isolated(text: str, prefix: str, target: Target) -> str:
    """A module's text whose functions are internal, have a prefix, and may use the target's features."""
    names = sorted(set(_DEFINITION.findall(text)), key=len, reverse=True)
    pattern = re.compile(r"@(" + "|".join(map(re.escape, names)) + r")(?![\w.$-])")
    text = pattern.sub(lambda found: f"@{prefix}{found[1]}", text)
    text = _LINKAGE.sub("define internal ", text)
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
