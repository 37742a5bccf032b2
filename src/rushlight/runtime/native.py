"""The floor's own native functions: compiled once, kept in the object cache, loaded on first use."""

import ctypes
import functools
import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from rushlight.runtime import (
    allocator,
    call_text,
    cells_text,
    commit_text,
    containers_text,
    llvm,
    objects,
    placement_text,
    pool_text,
)
from rushlight.support.frozen import frozen

Result = TypeVar("Result")

_FASTCALL = 0x0080  # METH_FASTCALL

Call = Callable[..., int]
"""(address of the entry, of the context, of the descriptor pointers, then perhaps a commit) -> status."""


class _MethodDefinition(ctypes.Structure):
    """PyMethodDef, part of the stable ABI."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


@frozen
class NativeFunctions:
    """Everything that the floor's own object defines, ready to call."""

    module: llvm.LoadedModule
    parallel_for: int
    worker_loop: Callable[[int, int], None]
    take_pool: Callable[[int], None]
    free_pool: Callable[[int], None]
    stop_workers: Callable[[int], None]
    call_held: Call
    call_released: Call
    call_watched: Call
    interrupt_byte: int
    no_interrupt_byte: int
    python_handler: int
    give_cell: Callable[[int, int], int]
    take_cell: Callable[[int], int]
    same_objects: Callable[[int], bool]
    commit: Callable[[tuple[Any, Any, Any, Any]], bool]
    run_or_undo: Callable[[Callable[[], Any], Callable[[], None]], Any]


def run_or_undo(function: Callable[[], Result], undo: Callable[[], None]) -> Result:
    """The function's result. If it raises, `undo` has run to its end, whatever interrupts came meanwhile.

    `undo` must be right when it is begun again after any of its steps. The first error of `undo` is raised, as an
    interrupt is, or else that of the function.
    """
    return functions().run_or_undo(function, undo)


def python_function(name: str, address: int, owner: object) -> Callable[..., Any]:
    """A Python function for the native one at `address`: `ptr f(ptr self, ptr args, i64 count)`.

    It keeps `owner`, which must keep the code alive.
    """
    definition = _MethodDefinition(name.encode(), address, _FASTCALL, None)
    new: Any = ctypes.pythonapi.PyCFunction_NewEx
    new.argtypes = (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    new.restype = ctypes.py_object
    return new(ctypes.addressof(definition), (definition, owner), None)


def load_cached(name: str, ir_text: str, target: llvm.Target) -> llvm.LoadedModule:
    """The module of a text, from the object cache or compiled now. `name` is for people who list the cache."""
    digest = hashlib.blake2b(digest_size=20)
    for part in (ir_text, target.triple, target.cpu, target.features, llvm.version()):
        digest.update(part.encode() + b"\0")
    key = f"{name}-{digest.hexdigest()}"
    cache = objects.shared()
    sections = cache.get(key)
    if sections is None:
        sections = {"object": llvm.compile_object(ir_text, target), "about": json.dumps({"name": name}).encode()}
        cache.put(key, sections)
    return llvm.load_object(sections["object"])


def keep_forever(module: llvm.LoadedModule) -> None:
    """Keeps code mapped until the process ends: objects that live to the interpreter's end are freed by it."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(module))


def _fill(address: int, words: Sequence[int]) -> None:
    (ctypes.c_int64 * len(words)).from_address(address)[:] = words


@functools.cache
def _load() -> NativeFunctions:
    for text in (pool_text, call_text, cells_text, containers_text, commit_text):
        llvm.bind_python_symbols(*text.PYTHON_SYMBOLS)
    placed = placement_text.available()
    if placed:
        llvm.bind_python_symbols(*placement_text.SYMBOLS)
    target = llvm.baseline_target()
    texts = (
        pool_text.environment_text(target.architecture),
        placement_text.placement_text(placed),
        pool_text.pool_text(),
        call_text.call_text(),
        cells_text.CELLS_TEXT,
        containers_text.CONTAINERS_TEXT,
        commit_text.commit_text(),
    )
    module = load_cached("runtime", "".join(texts), target)
    keep_forever(module)  # blocks of memory outlive everything else, and give themselves back
    for name in ("run_held", "take_block"):
        llvm.bind_symbol(name, module.address(name))
    _fill(module.address("cell_capacities"), allocator.LENT_CAPACITIES)
    _fill(module.address("cell_counts"), [allocator.CPU.counts.buffer_info()[0]])
    on_pool = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    names = (*call_text.CALLS, *cells_text.NAMES, containers_text.NAME, *commit_text.NAMES)
    calls = {name: python_function(name, module.address(name), module) for name in names}
    return NativeFunctions(
        module=module,
        parallel_for=module.address("parallel_for"),
        worker_loop=ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(module.address("worker_loop")),
        take_pool=on_pool(module.address("take_pool")),
        free_pool=on_pool(module.address("free_pool")),
        stop_workers=on_pool(module.address("stop_workers")),
        call_held=calls["call_held"],
        call_released=calls["call_released"],
        call_watched=calls["call_watched"],
        interrupt_byte=module.address("interrupt_byte"),
        no_interrupt_byte=module.address("no_interrupt_byte"),
        python_handler=module.address("python_handler"),
        give_cell=calls["give_cell"],
        take_cell=calls["take_cell"],
        same_objects=calls[containers_text.NAME],
        commit=calls["commit"],
        run_or_undo=calls["run_or_undo"],
    )


def functions() -> NativeFunctions:
    """The functions, loaded on first use by whichever thread comes first."""
    with llvm.LOCK:
        return _load()
