"""The process that reads mutated files."""

from __future__ import annotations

import contextlib
import hashlib
import json
import random
import tempfile
import traceback
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import rushlight as torch
from rushlight.export import export, load, save
from rushlight.runtime import objects
from rushlight.support import settings
from rushlight.support.errors import RushlightError
from rushlight.tune.records import Records
from tools.fuzz.child import serve
from tools.fuzz.files import mutated
from tools.fuzz.reading_weights import WRITERS, Watch, mutated_safetensors, read_weights

FOLDER = Path(tempfile.mkdtemp(prefix="rushlight-fuzz-"))
_PATH = FOLDER / "file"


@cache
def _exported() -> tuple[bytes, ...]:
    found: list[bytes] = []
    w = torch.ones(4, 2)
    layer = torch.nn.Linear(4, 3)
    for function in (lambda x: (x @ w).relu(), layer, lambda x: (x.sum(0), {"a": [x * 2, 3]}, x[1:])):
        save(export(function, (torch.ones(3, 4),)), _PATH)
        found.append(_PATH.read_bytes())
    return tuple(found)


def read_export(draw: random.Random) -> None:
    """Loads an exported program, and runs it."""
    _PATH.write_bytes(mutated_safetensors(draw.choice(_exported()), draw))
    load(_PATH).module()(torch.ones(3, 4))


def read_records(draw: random.Random) -> None:
    """Reads the tuner's records."""
    lines = b"znver4 | f32 512 512 512 | mr=6 nr=32 mc=48 nc=64 unroll=4 | 3.1 ms\n" * 2
    (FOLDER / "tuned.txt").write_bytes(mutated(lines, draw))
    for record in Records(str(FOLDER)).all():
        str(record)


def read_cache(draw: random.Random) -> None:
    """Reads an entry of the object cache, with a checksum that fits in half of the cases."""
    folder = FOLDER / "objects"
    store = objects.ObjectCache(folder)
    store.put("key", {"object": b"code" * 20, "plan": b'{"a": 1}'})
    path = next(folder.glob("*.rlo"))
    data = mutated(path.read_bytes(), draw)
    if draw.random() < 0.5 and len(data) > 44:
        data = data[:12] + hashlib.blake2b(data[44:], digest_size=32).digest() + data[44:]
    path.write_bytes(data)
    store.get("key")
    store.ls()
    store.verify()
    store.clear()


def read_settings(draw: random.Random) -> None:
    """Reads settings from an environment."""
    names = [setting.variable for setting in settings.SETTINGS.values()]
    values = ("1", "0", "true", "cpu", "4", "", "-1", "1e999", "x", "a,b", "\udcff", "9" * 30, " 2 ", "None")
    name = draw.choice(names)
    if draw.random() < 0.2:
        name = mutated(name.encode(), draw).decode("utf-8", "replace")
    settings.read_environment({name: draw.choice(values)})


@cache
def _watch() -> Watch:
    """What watches this process; every kind of file was read once before, so that lazy parts are there."""
    watch = Watch(tempfile.gettempdir())
    for kind in WRITERS:
        for number in range(3):
            with contextlib.suppress(RushlightError):
                read_weights(kind, random.Random(number), watch)
    return watch


def _weights(kind: str) -> Callable[[random.Random], None]:
    return lambda draw: read_weights(kind, draw, _watch())


READERS: dict[str, Callable[[random.Random], None]] = {
    "export": read_export,
    "records": read_records,
    "cache": read_cache,
    "settings": read_settings,
    **{kind: _weights(kind) for kind in WRITERS},
}


def answer(question: dict[str, Any]) -> dict[str, str]:
    """Makes one mutant and says how reading it ended."""
    draw = random.Random(json.dumps([question["seed"], question["number"]]))
    _exported()
    try:
        READERS[question["kind"]](draw)
    except RushlightError as problem:
        said = str(problem)
        return {"kind": f"internal {problem.code}" if problem.code.startswith("X") else "coded", "detail": said[:200]}
    except Exception as problem:  # noqa: BLE001 - what comes out is what is asked
        last = traceback.extract_tb(problem.__traceback__)[-1]
        place = f"{last.filename.rpartition('/')[2]}:{last.lineno}"
        return {"kind": f"{type(problem).__name__} at {place}", "detail": str(problem)[:200]}
    return {"kind": "value", "detail": ""}


if __name__ == "__main__":
    serve(answer)
