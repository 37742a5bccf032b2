"""Mutated files of weights: PyTorch's archives, safetensors, numpy's archives, folders, pickles that call functions.

Reading one takes no more memory than a small multiple of the file's size, and runs nothing: an audit hook notes what
Python would execute, import, write or delete.
"""

from __future__ import annotations

import io
import json
import pickle
import random
import re
import struct
import sys
import tempfile
import zipfile
from collections import Counter, OrderedDict
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import rushlight as torch
from rushlight.support.errors import RushlightError
from tools.fuzz.files import WORDS, mutated

SOURCE = str(Path(torch.__file__).parent)
MOST_BYTES = 48 << 20  # address space by which reading a file of some kilobytes may grow
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_FORBIDDEN = (
    *("os.", "subprocess.", "shutil.", "socket.", "ctypes.", "pickle.", "builtins.input", "code.__new__"),
    *("import", "exec", "cpython.", "sys."),
)
_HARMLESS = ("os.listdir", "os.scandir", "sys._getframe", "ctypes.")


class Executed(Exception):
    """Reading a file did what no file may cause."""


class Enormous(Exception):
    """Reading a file took far more memory than it has bytes."""


class UnnamedEntry(Exception):
    """An error of a damaged file does not say where."""


class Watch:
    """Notes what runs while it is on; files may be opened for reading below the folder alone."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._on = False
        self._seen: list[str] = []
        sys.addaudithook(self._hook)

    def _hook(self, event: str, args: tuple[Any, ...]) -> None:
        if not self._on or event.startswith(_HARMLESS):
            return
        if event == "open":
            path, mode = str(args[0]), str(args[1] or "r")
            ours = path.startswith((self._folder, SOURCE, sys.base_prefix, sys.prefix, "/proc/self"))
            if not ours or set(mode) & set("wax+"):
                self._seen.append(f"open {path[:80]} {mode}")
        elif event == "import" or (event == "exec" and _of_a_module(args[0])):
            return  # operators are loaded when they are first called
        elif event.startswith(_FORBIDDEN):
            self._seen.append(f"{event} {str(args)[:80]}")

    def __enter__(self) -> None:
        self._seen.clear()
        self._on = True

    def __exit__(self, *_: object) -> None:
        self._on = False
        if self._seen:
            raise Executed("; ".join(self._seen[:3]))


def _of_a_module(code: Any) -> bool:
    return str(getattr(code, "co_filename", "")).startswith((SOURCE, sys.base_prefix, sys.prefix, "<frozen"))


def address_space() -> int:
    """Return the most bytes of address space that the process ever had."""
    text = Path("/proc/self/status").read_text()
    found = re.search(r"VmPeak:\s+(\d+) kB", text)
    return int(found[1]) << 10 if found else 0


def state() -> dict[str, Any]:
    """Return a checkpoint of everything: views, dtypes, modules, an optimizer, containers and numbers of numpy."""
    x = torch.arange(6.0)
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(4, 2)).sum().backward()
    optimizer.step()
    kinds = {name: torch.ones(2, dtype=getattr(torch, name)) for name in ("bool", "int64", "bfloat16", "complex64")}
    others = {"t": (1, [None, "text"], 1j, b"\xff"), "d": torch.float32, "s": torch.Size([1, 2]), "c": Counter("aab")}
    views = {"x": x, "row": x[2:4], "turned": x.reshape(2, 3).T, "bits": x.view(torch.int32), "empty": torch.ones(0, 3)}
    weights = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "p": torch.nn.Parameter(x)}
    return {**views, **kinds, **others, **weights}


@cache
def archived() -> tuple[tuple[str, bytes], ...]:
    """Return the entries of a checkpoint."""
    file = io.BytesIO()
    torch.save(state(), file)
    with zipfile.ZipFile(file) as source:
        return tuple((name, source.read(name)) for name in source.namelist())


def zipped(entries: tuple[tuple[str, bytes], ...], packed: bool = False) -> bytes:
    """Return an archive of entries."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED) as target:
        for name, data in entries:
            target.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED)
    return file.getvalue()


def _damaged_archive(entries: tuple[tuple[str, bytes], ...], draw: random.Random) -> bytes:
    """An archive of which one entry is changed before its checksum is taken, or one with changed bytes or directory."""
    way = draw.random()
    if way < 0.5:
        at = draw.randrange(len(entries)) if draw.random() < 0.4 else 0
        name, data = entries[at]
        renamed = (mutated(name.encode(), draw).decode("latin1"), data)
        changed = (name, mutated(data, draw)) if draw.random() < 0.9 else renamed
        return zipped((*entries[:at], changed, *entries[at + 1 :]), draw.random() < 0.1)
    data = zipped(entries)
    if way < 0.7:
        return mutated(data, draw)
    start = data.rindex(b"PK\x05\x06")
    (begin,) = struct.unpack("<L", data[start + 16 : start + 20])
    if way < 0.9:  # a number of the directory
        at = draw.randrange(begin, len(data) - 4)
        number = draw.choice((0, 1, 0xFF, 0xFFFF, 0xFFFFFFFF, 0x7FFFFFFF, len(data)))
        return data[:at] + struct.pack("<L", number) + data[at + 4 :]
    return _overlapping(data, begin, draw.randrange(2, 2000))


def _overlapping(data: bytes, begin: int, times: int) -> bytes:
    """An archive whose directory names the data of its first entries over and over."""
    directory, at = [], begin
    while data[at : at + 4] == b"PK\x01\x02":
        fields = _CENTRAL.unpack_from(data, at)
        end = at + _CENTRAL.size + fields[10] + fields[11] + fields[12]
        directory.append((data[at : at + _CENTRAL.size], data[at + _CENTRAL.size : end]))
        at = end
    head = directory[-2][0]
    copies = [head + b"archive/data/%06d" % number for number in range(times)]
    length = len(b"archive/data/000000")
    copies = [copy[:28] + struct.pack("<HHH", length, 0, 0) + copy[34:] for copy in copies]
    listing = b"".join([*[one + rest for one, rest in directory], *copies])
    count = len(directory) + times
    return data[:begin] + listing + struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, count, count, len(listing), begin, 0)


def write_archive(folder: Path, draw: random.Random) -> Path:
    """A damaged checkpoint."""
    return _written(folder / "model.pt", _damaged_archive(archived(), draw))


@cache
def _safetensors() -> bytes:
    with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
        torch.save({"a": torch.ones(3, 4), "b": torch.arange(5), "c": torch.ones(2, dtype=torch.bfloat16)}, file.name)
        return Path(file.name).read_bytes()


def mutated_safetensors(data: bytes, draw: random.Random) -> bytes:
    """A safetensors file with a changed header whose length fits, or changed anywhere."""
    size = struct.unpack("<Q", data[:8])[0]
    head, body = data[8 : 8 + size], data[8 + size :]
    if draw.random() < 0.5:
        places = list(re.finditer(rb"[a-z_0-9]{2,}|\d+", head))
        chosen = draw.choice(places)
        head = head[: chosen.start()] + draw.choice(WORDS) + head[chosen.end() :]
    elif draw.random() < 0.8:
        head = mutated(head, draw)
    else:
        return mutated(data, draw)
    return struct.pack("<Q", len(head)) + head + body


def write_safetensors(folder: Path, draw: random.Random) -> Path:
    """Damaged safetensors."""
    return _written(folder / "model.safetensors", mutated_safetensors(_safetensors(), draw))


@cache
def _arrays() -> tuple[tuple[str, bytes], ...]:
    file = io.BytesIO()
    np.savez(file, a=np.ones((2, 3)), b=np.arange(4)[::2], c=np.asfortranarray(np.ones((2, 2), np.complex64)))
    with zipfile.ZipFile(file) as source:
        return tuple((name, source.read(name)) for name in source.namelist())


def write_arrays(folder: Path, draw: random.Random) -> Path:
    """A damaged archive of numpy's, or one of its files."""
    if draw.random() < 0.3:
        return _written(folder / "one.npy", mutated(draw.choice(_arrays())[1], draw))
    entries = _arrays()
    if draw.random() < 0.5:
        at = draw.randrange(len(entries))
        name, data = entries[at]
        chosen = draw.choice(list(re.finditer(rb"[a-z_0-9]+", data[10:100])))
        data = data[: 10 + chosen.start()] + draw.choice(WORDS) + data[10 + chosen.end() :]
        return _written(folder / "all.npz", zipped((*entries[:at], (name, data), *entries[at + 1 :])))
    return _written(folder / "all.npz", _damaged_archive(entries, draw))


def write_folder(folder: Path, draw: random.Random) -> Path:
    """A folder of weights in two files with an index, one of which is damaged or missing."""
    torch.save({"a": torch.ones(3, 4)}, folder / "model-1.safetensors")
    torch.save({"b": torch.ones(3)}, folder / "model-2.safetensors")
    index = {"metadata": {}, "weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    text = json.dumps(index).encode()
    way = draw.random()
    if way < 0.2:
        (folder / draw.choice(("model-1.safetensors", "model-2.safetensors"))).unlink()
    elif way < 0.4:
        path = folder / "model-1.safetensors"
        path.write_bytes(mutated(path.read_bytes(), draw))
    elif way < 0.7:
        names = ("../model.pt", "/etc/passwd", "", ".", "..", "model.safetensors.index.json", "a\x00b", "x" * 300)
        index["weight_map"]["a"] = draw.choice(names)
        text = json.dumps(index).encode()
    else:
        text = mutated(text, draw)
    (folder / "model.safetensors.index.json").write_bytes(text)
    return folder


NAMES = (
    *("os system", "posix system", "builtins eval", "builtins exec", "builtins open", "builtins getattr"),
    *("__builtin__ eval", "builtins __import__", "subprocess Popen", "sys exit", "shutil rmtree", "pickle loads"),
    *("functools partial", "operator attrgetter", "torch load", "torch.hub load", "torch.nn Linear", "numpy load"),
    *("collections OrderedDict", "collections Counter", "collections deque", "collections defaultdict"),
    *("argparse Namespace", "types SimpleNamespace", "datetime timedelta", "pathlib Path", "copyreg _reconstructor"),
    *("builtins set", "builtins frozenset", "builtins bytearray", "builtins complex", "builtins list", "builtins str"),
    *("builtins dict", "builtins tuple", "builtins slice", "builtins int", "builtins object", "_codecs encode"),
    *("torch Size", "torch device", "torch Tensor", "torch float32", "torch int8", "torch FloatStorage"),
    *("torch.nn.parameter Parameter", "torch.storage UntypedStorage", "torch.serialization _get_layout"),
    *(f"torch._utils _rebuild_{name}" for name in ("tensor", "tensor_v2", "tensor_v3", "parameter", "qtensor")),
    *(f"torch._utils _rebuild_{name}" for name in ("parameter_with_state", "device_tensor_from_numpy")),
    *("torch._utils _rebuild_device_tensor_from_cpu_tensor", "torch._utils _rebuild_meta_tensor_no_storage"),
    *("torch._tensor _rebuild_from_type_v2", "numpy dtype", "numpy ndarray", "numpy.core.multiarray scalar"),
    *("numpy._core.multiarray _reconstruct", "numpy._core.numeric _frombuffer", "rushlight Tensor"),
)
"""What drawn pickles name: what would do harm, and all that is allowed."""

_TEXTS = (
    b"touch /tmp/executed",
    b"__class__",
    b"__setstate__",
    b"latin1",
    b"storage",
    b"0",
    b"cpu",
    b"f4",
    b"O",
    b"i8",
)
_VALUES = (
    b"N",
    b"\x88",
    b"\x89",
    b")",
    b"]",
    b"}",
    b"\x8f",
    b"K\x00",
    b"K\x05",
    b"J\xff\xff\xff\x7f",
    b"J\xff\xff\xff\xff",
)
_STEPS = (
    b"\x85",
    b"\x86",
    b"\x87",
    b"R",
    b"\x81",
    b"b",
    b"Q",
    b"a",
    b"s",
    b"0",
    b"1",
    b"t",
    b"l",
    b"d",
    b"\x91",
    b"\x90",
)
_MORE = (b"e", b"u", b"i" + b"os\nsystem\n", b"o", b"\x92", b"\x82\x01", b"P0\n", b"\x97", b"\x98", b"2", b"\x93", b".")


def _drawn_pickle(draw: random.Random) -> bytes:
    """Opcodes in an order that does not make sense, mostly; names are called often."""
    parts = [b"\x80\x04"]
    for _ in range(draw.choice((3, 8, 30))):
        way = draw.random()
        if way < 0.25:
            parts.append(b"c" + draw.choice(NAMES).replace(" ", "\n").encode() + b"\n")
            parts += _drawn_arguments(draw) if draw.random() < 0.7 else []
        elif way < 0.4:
            text = draw.choice(_TEXTS)
            parts.append(b"X" + struct.pack("<I", len(text)) + text)
        elif way < 0.6:
            parts.append(draw.choice(_VALUES))
        elif way < 0.75:
            parts.append(draw.choice((b"(", b"(", b"q\x00", b"h\x00", b"h\x01", b"q\x01", b"\x94")))
        else:
            parts.append(draw.choice(_STEPS + _MORE))
    return b"".join([*parts, b"."])


def _drawn_arguments(draw: random.Random) -> list[bytes]:
    storage = b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x04tQ"
    parts = [b"("]
    for _ in range(draw.randrange(8)):
        text = draw.choice(_TEXTS)
        words = (*_VALUES, storage, b"K\x02\x85", b"h\x00", b"h\x01", b"X" + struct.pack("<I", len(text)) + text)
        name = b"c" + draw.choice(NAMES).replace(" ", "\n").encode() + b"\n"
        parts.append(draw.choice((*words, name)))
    return [*parts, b"t", draw.choice((b"R", b"R", b"\x81", b"b"))]


class Call:
    """An object whose pickle calls a function."""

    def __init__(self, *call: Any) -> None:
        self.call = call

    def __reduce__(self) -> Any:
        return self.call[0], self.call[1:]


def _repeated(draw: random.Random) -> bytes:
    """A pickle whose calls copy the same long value again and again."""
    data = b"a" * draw.choice((1000, 20_000))
    text = b"X" + struct.pack("<I", len(data)) + data
    long = b"(" + b"N" * len(data) + draw.choice((b"t", b"l"))
    name, value, more = draw.choice(
        (
            (b"_codecs\nencode", text, b"X\x06\x00\x00\x00latin1"),
            (b"builtins\nbytearray", b"B" + text[1:], b""),
            (b"builtins\nlist", long, b""),
            (b"builtins\ntuple", long, b""),
            (b"collections\ndeque", long, b""),
        )
    )
    call = b"h\x00(h\x01" + more + b"tR"
    return b"\x80\x04](c" + name + b"\nq\x00" + value + b"q\x01" + call * 20_000 + b"e."


def write_pickle(folder: Path, draw: random.Random) -> Path:
    """A checkpoint whose pickle was made to do harm, or is made of drawn opcodes."""
    way = draw.random()
    if way < 0.1:
        evil = Call(draw.choice((eval, exec, print, open, getattr, pickle.loads)), draw.choice(("1", "/tmp/executed")))
        value = draw.choice(({"x": evil}, [evil], OrderedDict(x=evil), {(1, evil.call[1]): evil}))
        data = pickle.dumps(value, draw.randrange(6))
    elif way < 0.15:
        data = _repeated(draw)
    else:
        data = _drawn_pickle(draw)
    floats = np.arange(4, dtype=np.float32).tobytes()
    entries = (("archive/data.pkl", data), ("archive/data/0", floats), ("archive/version", b"3\n"))
    return _written(folder / "evil.pt", zipped(entries))


def _written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


WRITERS: dict[str, Callable[[Path, random.Random], Path]] = {
    "archive": write_archive,
    "safetensors": write_safetensors,
    "arrays": write_arrays,
    "folder": write_folder,
    "pickle": write_pickle,
}


def read_weights(kind: str, draw: random.Random, watch: Watch) -> None:
    """Loads a damaged file or folder; an error where that takes much memory, or executes anything."""
    with tempfile.TemporaryDirectory(prefix="rushlight-fuzz-") as name:
        path = WRITERS[kind](Path(name), draw)
        size = path.stat().st_size
        before = address_space()
        way = draw.randrange(5)
        try:
            with watch:
                if way == 0 and path.is_file():
                    torch.load(io.BytesIO(path.read_bytes()))
                elif way == 1:
                    torch.load(path, mmap=True)
                else:
                    torch.load(path, weights_only=way != 2, map_location=draw.choice(("cpu", None)))
        except RushlightError as problem:
            told = str(problem) + str(getattr(problem, "__notes__", ""))
            if problem.code != "P005" and "entry" not in told and str(path) not in told:
                raise UnnamedEntry(told) from problem
            if problem.code == "P002" and "entry:" not in told:
                raise UnnamedEntry(told) from problem
            raise
        finally:
            grown = address_space() - before
            if grown > MOST_BYTES + 64 * size:
                raise Enormous(f"{grown} bytes for a file of {size}")
