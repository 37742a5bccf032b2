"""From a graph to native code: the pipeline, LLVM, and a cache in memory and on disk."""

from __future__ import annotations

import functools
import threading
import time
import weakref
from typing import TYPE_CHECKING, Protocol

from rushlight import build
from rushlight.build.cores import load_cores
from rushlight.build.executable import NativeExecutable, Once, Summary
from rushlight.build.key import graph_key
from rushlight.build.stages import Stages, stages_of
from rushlight.ir.choice import Choose, Product, by_model
from rushlight.ir.gemm_tile import GemmTile
from rushlight.ir.graph import Graph
from rushlight.ir.target import Target
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


@functools.lru_cache(maxsize=8)
def _target(name: str) -> Target:
    return llvm.target_named(name)


def compile_native(graph: Graph, chooser: Chooser | None = None) -> NativeExecutable:
    """The executable of a functional graph; equal graphs share native code, over processes too.

    `chooser` chooses tiles in place of the cost model.
    """
    target = _target(settings.get().target)
    stages = stages_of(graph)
    choices = "" if chooser is None else chooser.key(graph)
    choose = by_model if chooser is None else chooser.choose
    if stages.any_edited or choices is None:
        obj, summary = _compile(graph, target, stages, choose)
        return NativeExecutable.of_graph(graph, _load(obj, summary, target), summary, cached=False)
    with clock.stage("key"):
        key = graph_key(graph, target, choices)
    loaded = None if stages.lacking else _loaded.get(key)
    module = None if loaded is None else loaded[0]()
    if loaded is not None and module is not None:
        return NativeExecutable.of_graph(graph, module, loaded[1], cached=True)
    with clock.stage("cache"):
        stored = None if stages.lacking else objects.shared().get(key)
    if stored is not None:
        obj, summary = stored["object"], Summary.from_json(stored["summary"])
        events.record("cache_hit", "disk", f"{graph.name} {key[:12]}")
    else:
        events.record("cache_miss", "disk", f"{graph.name} {key[:12]}")
        obj, summary = _compile(graph, target, stages, choose)
        with clock.stage("cache"):
            objects.shared().put(key, {"object": obj, "summary": summary.to_json()})
    module = _load(obj, summary, target)
    with _lock:
        loaded = _loaded.get(key)
        shared = None if loaded is None else loaded[0]()
        if shared is None:
            _loaded[key] = weakref.ref(module, functools.partial(_loaded.pop, key)), summary
    return NativeExecutable.of_graph(graph, module if shared is None else shared, summary, cached=stored is not None)


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


def _compile(graph: Graph, target: Target, stages: Stages, choose: Choose) -> tuple[bytes, Summary]:
    start = time.perf_counter_ns()
    code: Code = build.pipeline.run_passes(graph, target, stages, choose=choose)
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
    )
    return obj, summary
