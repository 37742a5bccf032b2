"""From a graph to native code: the pipeline, LLVM, and a cache in memory and on disk."""

from __future__ import annotations

import functools
import threading
import time
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from rushlight import build
from rushlight.build.cores import load_cores
from rushlight.build.executable import NativeExecutable, Once, Summary
from rushlight.build.key import graph_key
from rushlight.build.stages import Stages, stages_of
from rushlight.ir.choice import BLOCKS, Blocks, Product, by_model
from rushlight.ir.gemm_tile import GemmTile
from rushlight.ir.graph import Graph, ValueAssert
from rushlight.ir.target import Target
from rushlight.ir.type import TensorType
from rushlight.runtime import llvm, objects
from rushlight.support import clock, events, settings

if TYPE_CHECKING:
    from rushlight.build.pipeline import Code
    from rushlight.ir.plan import Plan

# Executables share the code of equal graphs while one of them lives. The callback is a method of C: one in Python would
# run anywhere, and lose an interrupt that arrives in it.
_loaded: dict[str, tuple[weakref.ref[llvm.LoadedModule], Summary]] = {}
_lock = threading.Lock()


class Chooser(Protocol):
    """Chooses the tiles of matrix products."""

    def key(self, graph: Graph) -> str | None:
        """Return the facts besides the graph that choices depend on; None for code that is not cached."""
        ...

    def choose(self, product: Product) -> GemmTile:
        """The tile for a product."""
        ...

    def blocks(self, graph: Graph) -> Blocks:
        """The blocks in which a graph's loops are walked."""
        ...

    def prepare(self, graph: Graph, blocks: Blocks) -> None:
        """Hears that a graph is compiled now, in these blocks: its tiles will be asked for one after the other."""
        ...

    def note(self, product: Product) -> tuple[str, str] | None:
        """A product's name, and what is recorded for it; None where the graph's key says what is chosen."""
        return None

    def holds(self, notes: Sequence[tuple[str, str]]) -> bool:
        """Whether code with tiles of these notes is what would be compiled now."""
        return not notes


@functools.lru_cache(maxsize=8)
def _target(name: str) -> Target:
    return llvm.target_named(name)


def compile_native(graph: Graph, chooser: Chooser | None = None) -> NativeExecutable:
    """The executable of a functional graph; equal graphs share native code, over processes too.

    `chooser` chooses tiles in place of the cost model.
    """
    target = _target(settings.get().target)
    stages = stages_of(graph)
    choices, blocks = ("", BLOCKS) if chooser is None else _chosen(chooser, graph)
    if stages.any_edited or choices is None:
        events.record("cache_bypass", "edited" if stages.any_edited else "measured", graph.name)
        obj, summary = _compile(graph, target, stages, chooser, blocks)
        return NativeExecutable.of_graph(graph, _load(obj, summary, target), summary, cached=False)
    with clock.stage("key"):
        key = graph_key(graph, target, choices)
    made = _of_key(key, graph, target, stages, chooser, blocks)
    made.key = key
    return made


def _of_key(
    key: str, graph: Graph, target: Target, stages: Stages, chooser: Chooser | None, blocks: Blocks
) -> NativeExecutable:
    """The executable of a graph whose code is kept under a key: in memory, on disk, or made now."""
    loaded = None if stages.lacking else _loaded.get(key)
    module = None if loaded is None or not _holds(chooser, loaded[1]) else loaded[0]()
    if loaded is not None and module is not None:
        events.record("cache_hit", "memory", f"{graph.name} {key[:12]}")
        return NativeExecutable.of_graph(graph, module, loaded[1], cached=True)
    with clock.stage("cache"):
        stored = None if stages.lacking else objects.shared().get(key)
    summary = None if stored is None else Summary.from_json(stored["summary"])
    if stored is not None and summary is not None and _holds(chooser, summary):
        obj, cached = stored["object"], True
        events.record("cache_hit", "disk", f"{graph.name} {key[:12]}")
    else:
        events.record("cache_miss", "disk", f"{graph.name} {key[:12]}")
        cached = False
        obj, summary = _compile(graph, target, stages, chooser, blocks)
        with clock.stage("cache"):
            objects.shared().put(key, {"object": obj, "summary": summary.to_json()})
    return NativeExecutable.of_graph(graph, _shared(key, _load(obj, summary, target), summary), summary, cached=cached)


def _shared(key: str, module: llvm.LoadedModule, summary: Summary) -> llvm.LoadedModule:
    """The code that executables of a key share: that of another thread, if there is some of the same choices."""
    with _lock:
        loaded = _loaded.get(key)
        shared = None if loaded is None or loaded[1].choices != summary.choices else loaded[0]()
        if shared is None:
            _loaded[key] = weakref.ref(module, functools.partial(_loaded.pop, key)), summary
    return module if shared is None else shared


def stored_executable(
    key: str, inputs: Sequence[TensorType], outputs: Sequence[TensorType], asserts: Sequence[ValueAssert]
) -> NativeExecutable | None:
    """The executable of code that is kept under a key, with its contract; None where it is not there."""
    loaded = _loaded.get(key)
    module = None if loaded is None else loaded[0]()
    if loaded is not None and module is not None:
        summary = loaded[1]
    else:
        stored = objects.shared().get(key)
        if stored is None:
            return None
        summary = Summary.from_json(stored["summary"])
        module = _shared(key, _load(stored["object"], summary, _target(settings.get().target)), summary)
    made = NativeExecutable(inputs, outputs, module, summary, cached=True)
    made.asserts = tuple(asserts)
    made.key = key
    return made


def compile_code(graph: Graph, chooser: Chooser) -> tuple[bytes, Summary]:
    """The object code of a graph, which is not loaded, and facts about it."""
    return _compile(graph, _target(settings.get().target), stages_of(graph), chooser, chooser.blocks(graph))


def load_code(graph: Graph, obj: bytes, summary: Summary) -> NativeExecutable:
    """The executable of object code that this machine, perhaps another process, compiled."""
    return NativeExecutable.of_graph(graph, _load(obj, summary, _target(settings.get().target)), summary, cached=True)


def _chosen(chooser: Chooser, graph: Graph) -> tuple[str | None, Blocks]:
    """The key of a chooser's choices, None for code that is not cached, and the blocks."""
    blocks = chooser.blocks(graph)
    key = chooser.key(graph)
    return None if key is None else f"{key} {blocks}", blocks


def _holds(chooser: Chooser | None, summary: Summary) -> bool:
    """Whether code with the tiles of a summary is what the chooser would have compiled now."""
    return chooser is None or chooser.holds(summary.choices)


def _chosen_tile(chooser: Chooser, notes: dict[str, str], product: Product) -> GemmTile:
    """The tile for a product, which is noted."""
    tile = chooser.choose(product)
    note = chooser.note(product)
    if note is not None:
        notes[note[0]] = note[1]
    return tile


def _load(obj: bytes, summary: Summary, target: Target) -> llvm.LoadedModule:
    with clock.stage("cores"):
        load_cores(summary.tiles, target)
    with clock.stage("load"):
        return llvm.load_object(obj)


def _once(plan: Plan) -> Once | None:
    once = plan.once
    if once is None:
        return None
    reads = tuple([plan.inputs.index(buffer) for buffer in once.inputs])
    results = [(type_.dtype.name, tuple([int(size) for size in type_.shape])) for type_ in once.output_types]
    return Once(reads, tuple(results))


def _compile(
    graph: Graph, target: Target, stages: Stages, chooser: Chooser | None, blocks: Blocks
) -> tuple[bytes, Summary]:
    if chooser is not None:
        chooser.prepare(graph, blocks)
    notes: dict[str, str] = {}
    choose = by_model if chooser is None else functools.partial(_chosen_tile, chooser, notes)
    start = time.perf_counter_ns()
    code: Code = build.pipeline.run_passes(graph, target, stages, choose=choose, blocks=blocks)
    with clock.stage("LLVM"):
        obj = llvm.compile_object(code.text, target, settings.get().optimise)
    stages.dump("08-kernels.s", lambda: llvm.assembly(code.text, target, settings.get().optimise))
    plan = code.plan
    summary = Summary(
        launches=len(plan.launches),
        kernels=len(plan.kernels),
        arena_hint_bytes=plan.arena_hints()[1],
        messages=code.messages,
        tiles=plan.tiles,
        compile_ns=time.perf_counter_ns() - start,
        once=_once(plan),
        choices=tuple(notes.items()),
    )
    return obj, summary
