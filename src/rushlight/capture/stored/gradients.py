"""Graphs of backward passes on disk: what a compiled function's results are differentiated by in another process.

Which graphs a program needs its backward passes tell, one by one. Each that has run is kept beside the function's
entry, by what was asked of it.
"""

from __future__ import annotations

import json
from typing import Any

from rushlight.capture.gradients.orders import Request, Variant
from rushlight.capture.gradients.reopened import Extension
from rushlight.capture.launching import Launching
from rushlight.capture.segmented import Whole
from rushlight.capture.state.snapshot import Snapshot
from rushlight.capture.stored.decoding import Decoder, Unfit
from rushlight.capture.stored.encoding import Encoder, Unstorable
from rushlight.capture.stored.places import Places
from rushlight.runtime import objects
from rushlight.support import events
from rushlight.sym import Scope

_MOST = 64  # graphs of one entry
_SECTION = "gradients {}"


def keep_graph(key: str, request: Request, variant: Variant) -> None:
    """Writes a graph that has run beside those that are kept under a key, if it can be written."""
    try:
        data = json.dumps(_written(request, variant), separators=(",", ":")).encode()
    except Unstorable as reason:
        events.record("cache_bypass", "captured", f"a backward pass: {reason}")
        return
    before = (objects.shared().get(key) or {}).values()
    kept = [data, *[each for each in before if each != data]][:_MOST]
    objects.shared().put(key, {_SECTION.format(at): each for at, each in enumerate(kept)})


def _asked(request: Request) -> list[Any]:
    return [list(request.present), sorted(request.apart), request.first, request.last]


def _written(request: Request, variant: Variant) -> dict[str, Any]:
    """A graph as JSON has it; of symbols their names. Errors: Unstorable."""
    runs = variant.runs
    if not isinstance(runs, Whole) or request.recorded is not None or any(variant.makes):
        raise Unstorable("gradients that are recorded, sparse, or of several native calls")
    encoder = Encoder(Places(()), Snapshot([], [], [], []), (), names_symbols=True)
    return {
        "asked": _asked(request),
        "executable": encoder(runs.launching.executable),
        "sizes": encoder.all(runs.launching.sizes),
        "asserts": encoder.all(runs.asserts),
        "conditions": encoder.all(variant.extension.conditions),
        "counts": [*variant.counts],
        "more": [*variant.more],
        "rows": encoder.rows,
    }


def _read(stored: dict[str, Any], scope: Scope) -> Variant:
    """A graph of a function with the symbols of a scope. Errors: Unfit."""
    decoder = Decoder({}, scope)
    decoder.read(stored["rows"])
    sizes, asserts, conditions = (decoder.all(stored[name]) for name in ("sizes", "asserts", "conditions"))
    executable = decoder.objects[stored["executable"]]
    counts = stored["counts"]
    runs = Whole(Launching(sizes, lambda: executable), asserts)
    extension = Extension(None, (), (), {}, conditions)
    return Variant(extension, None, runs, counts, [None] * len(counts), stored["more"])


def kept_graphs(key: str, request: Request, scope: Scope) -> list[Variant]:
    """The graphs for a request that are kept under a key and whose code is there."""
    found: list[Variant] = []
    for data in (objects.shared().get(key) or {}).values():
        stored = json.loads(data)
        try:
            found += [_read(stored, scope)] if stored["asked"] == _asked(request) else []
        except Unfit as unfit:
            events.record("cache_miss", "captured", f"a backward pass: {unfit}")
    return found
