"""Compiled calls under a profile: each entry is replaced by one of the same text that says where its stages begin.

Comments in the text of an entry, as `# compiled_graph`, say where a stage begins; what comes before the first is the
lookup. So a call costs nothing more where no profile is on.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from rushlight.capture.entry.entry import Entry
from rushlight.eager.execution.measuring import Stages

_STAGE = re.compile(r"^( *)# (aot_prologue|compiled_graph|aot_epilogue)$", re.MULTILINE)
_MEASURED = """\
def call(args, kwargs):
    if not state.profiles: return unmeasured(args, kwargs)
    with stages() as begin: return staged(args, kwargs, begin)"""
_lock = threading.RLock()
_plain: list[tuple[Entry, Callable[..., object]]] = []
"""What was replaced, to be put back when the last profile ends."""
_profiles = [0]


def as_graph(line: str) -> list[str]:
    """The line that runs the graph, between the comments that say so."""
    return ["# compiled_graph", line, "# aot_epilogue"]


def made(entry: Entry) -> Entry:
    """A new entry, which is measured from its first call on where a profile is on."""
    with _lock:
        if _profiles[0]:
            _measure(entry)
    return entry


def begin(entries: Iterable[Entry]) -> None:
    """Measures the calls of entries, and of those that are made from here on."""
    with _lock:
        _profiles[0] += 1
        for entry in entries if _profiles[0] == 1 else ():
            _measure(entry)


def end() -> None:
    """Ends what `begin` began."""
    with _lock:
        _profiles[0] -= 1
        if not _profiles[0]:
            for entry, call in _plain:
                entry.call = call
            _plain.clear()


def _measure(entry: Entry) -> None:
    plain: Any = entry.call
    space: dict[str, Any] = plain.__globals__
    text = entry.text.replace("def call(args, kwargs):", "def staged(args, kwargs, begin):", 1)
    text = "\n".join([_STAGE.sub(r'\1begin("\2")', text), _MEASURED])
    name = plain.__code__.co_filename
    title = f"compiled {name.strip('<>').partition(' ')[2]}"
    space.update(unmeasured=plain, stages=partial(Stages, title, "cache_lookup"))
    exec(compile(text, name, "exec"), space)  # noqa: S102 - our own text
    _plain.append((entry, plain))
    entry.call = space.pop("call")
