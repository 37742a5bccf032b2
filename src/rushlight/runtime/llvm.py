"""The one door to LLVM: text in, objects out, objects in, addresses out.

llvmlite is imported on the first compilation, never on import of this module, and not at all in a process that finds
its objects in the cache and can link them by itself (`link`). Every call runs under one lock.
"""

import ctypes
import functools
import hashlib
import importlib
import importlib.util
import itertools
import json
import os
import platform
import re
import sys
import threading
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rushlight.ir.target import Target
from rushlight.runtime import elf, link, objects
from rushlight.support.errors import error, fail

LOCK = threading.RLock()
"""Held by every compilation and link; a fork waits for it."""

_X86_LEVELS = {"x86-64": 16, "x86-64-v2": 16, "x86-64-v3": 32, "x86-64-v4": 64}
_ARM_FEATURES = "+neon"
_WASM_FEATURES = "+bulk-memory,+nontrapping-fptoint,+sign-ext,+simd128"

_CPU_INFO = Path("/proc/cpuinfo")
_CPU_MODEL_LINES = (
    *(b"vendor_id", b"cpu family", b"model", b"stepping", b"flags"),
    *(b"CPU implementer", b"CPU architecture", b"CPU variant", b"CPU part", b"CPU revision", b"Features"),
)

_library_numbers = itertools.count()


class _State:
    """What is made once per process, on first use."""

    binding: Any = None
    all_targets: bool = False
    jit: Any = None
    inner_lock: Any = None
    host: Target | None = None


_machines: dict[tuple[Target, int], Any] = {}
_symbols: dict[str, int] = {}


def binding() -> Any:
    """`llvmlite.binding`, imported on first use and ready to make code for this machine."""
    with LOCK:
        if _State.binding is None:
            module = importlib.import_module("llvmlite.binding")
            module.initialize_native_target()
            module.initialize_native_asmprinter()
            module.initialize_native_asmparser()  # a package asks the processor by inline assembly
            _State.binding = module
        return _State.binding


# ------------------------------------------------------------------ targets


def host_target() -> Target:
    """This machine, with every feature that LLVM knows of it; remembered in the object cache."""
    with LOCK:
        if _State.host is None:
            key = _host_key()
            target = objects.shared().get(key) if key else None
            if target is None:
                _State.host = _ask_for_host_target()
                _remember_host(_State.host)
            else:
                _State.host = Target(**json.loads(target["target"]))
        return _State.host


def adopt_target(target: Target) -> None:
    """Make code for `target` on this machine from now on, until the object cache is cleared."""
    with LOCK:
        _State.host = target
        _remember_host(target)


def _remember_host(target: Target) -> None:
    key = _host_key()
    if key:
        objects.shared().put(key, {"target": json.dumps(asdict(target)).encode()})


def _host_key() -> str:
    """The key of this machine's target in the object cache; empty where the processor is unknown."""
    processor = _processor()
    return f"host-{hashlib.blake2b(processor, digest_size=20).hexdigest()}-{version()}" if processor else ""


def _ask_for_host_target() -> Target:
    llvm = binding()
    features = llvm.get_host_cpu_features()
    text = ",".join(f"{'+' if features[name] else '-'}{name}" for name in sorted(features))
    return Target(_host_triple(llvm), llvm.get_host_cpu_name(), text, _vector_bytes(features))


def target_named(name: str) -> Target:
    """A target by name: `native`, `x86-64` to `x86-64-v4`, `aarch64`, or `wasm32`."""
    if name == "native":
        return host_target()
    if name in _X86_LEVELS:
        return Target(_triple_for("x86_64"), name, "", _X86_LEVELS[name])
    if name == "aarch64":
        return Target(_triple_for("aarch64"), "generic", _ARM_FEATURES, 16)
    if name == "wasm32":
        return Target("wasm32-unknown-unknown", "generic", _WASM_FEATURES, 16)
    names = ", ".join(["native", *_X86_LEVELS, "aarch64", "wasm32"])
    return fail("C006", "target: there is no such target", name=name, hint=f"known targets: {names}")


def baseline_target() -> Target:
    """The least of this machine's family: for code that gains nothing from features, known without llvmlite."""
    machine = _process_machine()
    if machine in ("x86_64", "amd64"):
        return target_named("x86-64")
    return target_named("aarch64") if machine in ("aarch64", "arm64") else host_target()


@functools.cache
def version() -> str:
    """llvmlite's version, part of every key of compiled code; read without importing it."""
    spec = importlib.util.find_spec("llvmlite")
    if spec is not None and spec.origin:
        try:
            match = re.search(r"version_version = '([^']+)'", Path(spec.origin).with_name("_version.py").read_text())
        except OSError:
            match = None
        if match:
            return match[1]
    binding()
    return str(sys.modules["llvmlite"].__version__)


def runs_here(target: Target) -> bool:
    """Whether this machine can run code made for `target`."""
    host = host_target()
    return target.architecture == host.architecture and target.vector_bytes <= host.vector_bytes


def _process_machine() -> str:
    return platform.machine().lower()


def _processor() -> bytes:
    """What the kernel says of the first processor's model and features; empty where it says nothing."""
    try:
        with _CPU_INFO.open("rb", buffering=0) as file:
            text = file.read(8192).partition(b"\n\n")[0]
    except OSError:
        return b""
    return b"\n".join(line for line in text.splitlines() if line.startswith(_CPU_MODEL_LINES))


def _vector_bytes(features: Mapping[str, bool]) -> int:
    if all(features.get(f"avx512{part}") for part in ("f", "bw", "dq", "vl")):
        return 64
    return 32 if features.get("avx2") and features.get("fma") else 16


def _host_triple(llvm: Any) -> str:
    """The process's triple; object files are ELF everywhere, since that is what we read."""
    triple = str(llvm.get_process_triple())
    return triple if sys.platform.startswith(("linux", "freebsd")) else f"{triple}-elf"


def _triple_for(architecture: str) -> str:
    if sys.platform.startswith(("win", "darwin")):
        return f"{architecture}-{'pc-windows-msvc' if sys.platform == 'win32' else 'apple-darwin'}-elf"
    return f"{architecture}-unknown-linux-gnu"


# -------------------------------------------------------------- compilation


def compile_object(ir_text: str, target: Target, optimise: int = 1, verify: bool = False) -> bytes:
    """Compile a module of LLVM IR to a relocatable ELF object.

    Level 1 suits text that is explicit vector code already: inline what must be, promote memory to registers, combine
    instructions, tidy branches. Level 2 is LLVM's own O2 without its loop vectoriser and unroller. Neither contracts
    a product and a sum into an fma, nor reassociates, unless the text asks for it.
    """
    with LOCK:
        return _emit_object(ir_text, target, optimise, verify)


def assembly(ir_text: str, target: Target, optimise: int = 1) -> str:
    """The assembly text that `compile_object` would encode, for people."""
    with LOCK:
        return _emit_assembly(ir_text, target, optimise)


def optimised_text(ir_text: str, target: Target, optimise: int = 1) -> str:
    """The LLVM IR after the passes and before code generation, for people."""
    with LOCK:
        return str(_optimised(ir_text, target, optimise, verify=True))


# These two are functions so that LLVM's objects die before the lock is released.
def _emit_object(ir_text: str, target: Target, optimise: int, verify: bool) -> bytes:
    return bytes(_machine(target, optimise).emit_object(_optimised(ir_text, target, optimise, verify)))


def _emit_assembly(ir_text: str, target: Target, optimise: int) -> str:
    return str(_machine(target, optimise).emit_assembly(_optimised(ir_text, target, optimise, verify=False)))


def _optimised(ir_text: str, target: Target, optimise: int, verify: bool) -> Any:
    llvm = binding()
    machine = _machine(target, optimise)
    try:
        module = llvm.parse_assembly(ir_text, llvm.create_context())
        if verify:
            module.verify()
    except RuntimeError as cause:
        raise error("C004", f"compile: {cause}") from cause
    module.triple = target.triple
    module.data_layout = str(machine.target_data)
    options = llvm.create_pipeline_tuning_options(optimise)
    options.loop_vectorization = False
    options.slp_vectorization = False
    options.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, options)
    if optimise >= 2:
        builder.getModulePassManager().run(module, builder)
        return module
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, builder)
    return module


def _machine(target: Target, optimise: int) -> Any:
    machine = _machines.get((target, optimise))
    if machine is None:
        llvm = binding()
        if not _State.all_targets and target.architecture != _host_architecture(llvm):
            llvm.initialize_all_targets()
            llvm.initialize_all_asmprinters()
            _State.all_targets = True
        try:
            kind = llvm.Target.from_triple(target.triple)
            reloc = "static" if target.architecture == "wasm32" else "pic"
            machine = kind.create_target_machine(
                cpu=target.cpu, features=target.features, opt=optimise, reloc=reloc, codemodel="small"
            )
        except RuntimeError as cause:
            raise error("C006", f"target: {cause}", triple=target.triple) from cause
        _machines[target, optimise] = machine
    return machine


def _host_architecture(llvm: Any) -> str:
    return str(llvm.get_process_triple()).partition("-")[0]


# ------------------------------------------------------------------ symbols


def bind_symbol(name: str, address: int) -> None:
    """Let objects refer to `name`; an object may use no other outside symbols."""
    if not address:
        fail("X001", f"link: symbol {name} has no address")
    with LOCK:
        _symbols[name] = address


def bind_python_symbols(*names: str) -> None:
    """Let objects call functions that the Python interpreter exports."""
    for name in names:
        function = getattr(ctypes.pythonapi, name, None)
        if function is None:
            fail("X001", f"link: this Python does not export {name}")
        bind_symbol(name, ctypes.cast(function, ctypes.c_void_p).value or 0)


def bound_symbols() -> Mapping[str, int]:
    """A read-only look at the names that objects may use, and their addresses."""
    return MappingProxyType(_symbols)


def undefined_symbols(obj: bytes) -> set[str]:
    """Names that an object needs from outside."""
    return elf.ElfObject(obj).undefined()


def _address_of(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


bind_symbol("memmove", _address_of(ctypes.memmove))
bind_symbol("memcpy", _address_of(ctypes.memmove))  # memmove does all that memcpy promises
bind_symbol("memset", _address_of(ctypes.memset))


# ------------------------------------------------------------------ loading


class LoadedModule:
    """An object linked into this process; its code is unmapped when the last reference goes."""

    __slots__ = ("__weakref__", "_addresses", "_owner")

    def __init__(self, addresses: Mapping[str, int], owner: object) -> None:
        self._addresses = addresses
        self._owner = owner

    def address(self, name: str) -> int:
        """The address of a function or variable that the object defines."""
        try:
            return self._addresses[name]
        except KeyError:
            raise error("X001", f"link: the object defines no {name}") from None

    def names(self) -> list[str]:
        """What the object defines for others."""
        return list(self._addresses)


def load_object(obj: bytes, *, use_llvm: bool = False) -> LoadedModule:
    """Link an object into this process, refusing one with a symbol that nobody bound.

    Linked here where possible (x86-64 Linux), else by LLVM; `use_llvm` forces the latter.
    """
    with LOCK:
        parsed = elf.ElfObject(obj)
        unknown = sorted(parsed.undefined() - _symbols.keys())
        if unknown:
            fail("C005", f"link: the object needs unknown symbols: {', '.join(unknown)}")
        if not use_llvm and link.can_link_here():
            try:
                image = link.link(parsed, _symbols)
            except link.UnsupportedObject:
                pass
            else:
                return LoadedModule(image.addresses, image)
        return _load_by_llvm(obj, parsed)


def _load_by_llvm(obj: bytes, parsed: elf.ElfObject) -> LoadedModule:
    llvm = binding()
    if _State.jit is None:
        host = host_target()
        machine = llvm.Target.from_triple(host.triple).create_target_machine(
            cpu=host.cpu, features=host.features, opt=1, reloc="pic", codemodel="small"
        )
        _State.jit = llvm.create_lljit_compiler(machine)
    builder = llvm.JITLibraryBuilder().add_object_img(obj)
    for name in parsed.undefined():
        builder.import_symbol(name, _symbols[name])
    names = parsed.defined()
    for name in names:
        builder.export_symbol(name)
    try:
        tracker = builder.link(_State.jit, f"rushlight.{next(_library_numbers)}")
    except RuntimeError as cause:
        raise error("X001", f"link: {cause}") from cause
    return LoadedModule({name: tracker[name] for name in names}, tracker)


# --------------------------------------------------------------------- fork


def _before_fork() -> None:
    LOCK.acquire()
    # Finalisers of LLVM's objects run outside our lock, under llvmlite's own.
    _State.inner_lock = None if _State.binding is None else getattr(_State.binding.ffi.lib, "_lock", None)
    if _State.inner_lock is not None:
        _State.inner_lock.__enter__()


def _after_fork() -> None:
    if _State.inner_lock is not None:
        _State.inner_lock.__exit__(None, None, None)
    LOCK.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
