"""Programs as modules that are loaded as a new process would, and what their captured programs were: hits or misses."""

import importlib
import sys
import textwrap

import numpy as np

import rushlight as rl
from rushlight.support import events, settings


class Programs:
    """Modules in a folder, loaded as a new process would."""

    def __init__(self, folder):
        self.folder = folder
        self.texts = {}

    def write(self, **texts):
        self.texts.update(texts)

    def load(self, name="main"):
        for text in self.texts:
            sys.modules.pop(text, None)
        for each, text in self.texts.items():
            path = self.folder / f"{each}.py"
            path.write_text(textwrap.dedent(text), encoding="utf-8")
            (self.folder / "__pycache__").exists() and [it.unlink() for it in (self.folder / "__pycache__").iterdir()]
        importlib.invalidate_caches()
        return importlib.import_module(name)


def asked():
    """What the captured programs of the last calls were: a hit, a miss or a bypass, and why."""
    kinds = ("cache_hit", "cache_miss", "cache_bypass")
    return [(kind[6:], event.reason) for kind in kinds for event in events.events(kind) if event.code == "captured"]


def flat(result):
    parts = result if isinstance(result, (tuple, list)) else [result]
    return [part.detach().numpy().tobytes() if isinstance(part, rl.Tensor) else part for part in parts]


def check(module, args, *, hit, name="function", full=True):
    """A call of a compiled function has the bits of eager code, and was found on disk or was not."""
    function = getattr(module, name)
    with settings.override(cache_captured=False):
        expected = flat(function(*args))
    events.reset()
    compiled = rl.compile(function, fullgraph=full)
    assert flat(compiled(*args)) == expected
    assert ("hit" in [kind for kind, _ in asked()]) is hit, asked()
    assert flat(compiled(*args)) == expected
    assert rl.compiler.graph_count() >= 1


def x_of(*shape, dtype=rl.float32):
    return rl.from_numpy(np.random.default_rng(0).standard_normal(shape)).to(dtype)
