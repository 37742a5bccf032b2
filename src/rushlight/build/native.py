"""From a graph to native code: the pipeline, LLVM, and a cache in memory and on disk."""

from __future__ import annotations

import functools
import threading
import time
from typing import TYPE_CHECKING

from rushlight import build
from rushlight.build.cores import load_cores
from rushlight.build.executable import NativeExecutable, Once, Summary
from rushlight.build.key import graph_key
from rushlight.build.stages import Stages, stages_of
from rushlight.ir.graph import Graph
from rushlight.ir.target import Target
from rushlight.runtime import llvm, objects
from rushlight.support import events, settings

if TYPE_CHECKING:
    from rushlight.build.pipeline import Code
    from rushlight.ir.plan import Plan

_loaded: dict[str, tuple[llvm.LoadedModule, Summary]] = {}
_lock = threading.Lock()


@functools.lru_cache(maxsize=8)
def _target(name: str) -> Target:
    return llvm.target_named(name)


def compile_native(graph: Graph) -> NativeExecutable:
    """The executable of a functional graph; equal graphs share native code, over processes too."""
    target = _target(settings.get().target)
    stages = stages_of(graph)
    if stages.any_edited:
        obj, summary = _compile(graph, target, stages)
        return NativeExecutable.of_graph(graph, _load(obj, summary, target), summary, cached=False)
    key = graph_key(graph, target)
    found = None if stages.lacking else _loaded.get(key)
    if found is not None:
        return NativeExecutable.of_graph(graph, *found, cached=True)
    stored = None if stages.lacking else objects.shared().get(key)
    if stored is not None:
        obj, summary = stored["object"], Summary.from_json(stored["summary"])
        events.record("cache_hit", "disk", f"{graph.name} {key[:12]}")
    else:
        events.record("cache_miss", "disk", f"{graph.name} {key[:12]}")
        obj, summary = _compile(graph, target, stages)
        objects.shared().put(key, {"object": obj, "summary": summary.to_json()})
    module = _load(obj, summary, target)
    with _lock:
        kept = _loaded.setdefault(key, (module, summary))
    return NativeExecutable.of_graph(graph, *kept, cached=stored is not None)


def _load(obj: bytes, summary: Summary, target: Target) -> llvm.LoadedModule:
    load_cores(summary.tiles, target)
    return llvm.load_object(obj)


def _once(plan: Plan) -> Once | None:
    once = plan.once
    if once is None:
        return None
    reads = tuple([plan.inputs.index(buffer) for buffer in once.inputs])
    results = [(type_.dtype.name, [int(size) for size in type_.shape]) for type_ in once.output_types]
    return Once(reads, tuple([(name, tuple(shape)) for name, shape in results]))


def _compile(graph: Graph, target: Target, stages: Stages) -> tuple[bytes, Summary]:
    start = time.perf_counter_ns()
    code: Code = build.pipeline.run_passes(graph, target, stages)
    obj = llvm.compile_object(code.text, target)
    stages.dump("08-kernels.s", lambda: llvm.assembly(code.text, target))
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
