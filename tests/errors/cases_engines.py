"""Causes of the errors of sizes, native code, memory and cache, below the tensors."""

import json
import resource
import zipfile
from multiprocessing import resource_sharer
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import numpy as np

import rushlight as rl
from errorcases import triggers
from rushlight import sym
from rushlight.build import cache_archive, native
from rushlight.ir.graph_parse import parse_graph
from rushlight.ops.record import OPERATORS
from rushlight.repro import bisect, shrink
from rushlight.runtime import llvm
from rushlight.runtime.allocator import Allocator, Storage
from rushlight.runtime.objects import ObjectCache
from rushlight.support import settings
from rushlight.tune import Records

TEN_TERABYTES = 10 * 2**40


@triggers("C002", "size")
def size_is_not_known():
    scope = sym.Scope()
    found = scope.symbol("found", lower=0)
    sym.guard(sym.gt(found, 3))


@triggers("C009")
def size_text_is_malformed():
    sym.parse_size("n * (m + ", {"n": 2, "m": 3})


@triggers("R002")
def check_fails_for_the_example():
    scope = sym.Scope()
    n = scope.symbol("n", hint=3)
    sym.check(sym.ge(n, 8), "at least eight rows")


@triggers("C004")
def text_is_not_llvm():
    llvm.compile_object("define nonsense", llvm.host_target())


@triggers("C005")
def symbol_is_unknown():
    text = "declare void @elsewhere()\ndefine void @f() {\n  call void @elsewhere()\n  ret void\n}\n"
    llvm.load_object(llvm.compile_object(text, llvm.host_target()))


@triggers("C006")
def target_is_unknown():
    llvm.target_named("x86-64-v9")


@triggers("M001", "storage")
def allocation_is_too_large():
    Allocator(limit_bytes=2**34).allocate(TEN_TERABYTES)


@triggers("M002")
def memory_is_read_only():
    array = np.zeros(4, np.float32)
    array.setflags(write=False)
    Storage.from_buffer(array)


@triggers("M003")
def sender_has_ended():
    sent = bytes(ForkingPickler.dumps(rl.ones(2).share_memory_()))  # a view in a cycle ends 3.12.1
    resource_sharer.stop()
    ForkingPickler.loads(sent)


@triggers("K001")
def cache_folder_is_a_file(tmp_path: Path):
    (tmp_path / "cache").write_text("not a folder")
    ObjectCache(tmp_path / "cache").put("0" * 64, {"object": b"code"})


@triggers("K002")
def cache_entry_is_corrupt(tmp_path: Path):
    ObjectCache(tmp_path).put("0" * 64, {"object": b"code"})
    for path in tmp_path.rglob("*"):
        if path.is_file():
            path.write_bytes(path.read_bytes()[:-2] + b"xx")
    assert ObjectCache(tmp_path).get("0" * 64) is None


@triggers("K003")
def disk_is_full(tmp_path: Path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    cache = ObjectCache(tmp_path)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, limits[1]))
    try:
        cache.put("0" * 64, {"object": bytes(4096)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert cache.get("0" * 64) == {"object": bytes(4096)}


@triggers("K004")
def archive_is_text(tmp_path: Path):
    (tmp_path / "packed.zip").write_text("not an archive")
    cache_archive.unpack(tmp_path / "packed.zip", ObjectCache(tmp_path / "cache"))


@triggers("K005")
def archive_is_of_another_version(tmp_path: Path):
    cache = ObjectCache(tmp_path / "cache")
    cache_archive.pack(cache, tmp_path / "packed.zip")
    with zipfile.ZipFile(tmp_path / "packed.zip") as packed:
        told = json.loads(packed.read("manifest.json"))
    with zipfile.ZipFile(tmp_path / "packed.zip", "w") as packed:
        packed.writestr("manifest.json", json.dumps({**told, "source": "0" * 40}))
    cache_archive.unpack(tmp_path / "packed.zip", cache)


@triggers("M001")
def ten_terabytes():
    rl.empty(TEN_TERABYTES, dtype=rl.uint8)


def cube(x):
    """Results of a freshly compiled program: a cache has to be asked for its code."""
    native._loaded.clear()
    result = rl.compile(lambda x: x * x * x)(x)
    assert result.tolist() == [1.0, 8.0, 27.0]


@triggers("K001", "home")
def home_cannot_be_written(tmp_path: Path):
    (tmp_path / "home").write_text("not a folder")
    with settings.override(cache_dir=str(tmp_path / "home" / "cache")):
        cube(rl.tensor([1.0, 2.0, 3.0]))
        cube(rl.tensor([1.0, 2.0, 3.0]))


@triggers("K002", "program")
def cache_is_corrupt(tmp_path: Path):
    with settings.override(cache_dir=str(tmp_path / "cache")):
        cube(rl.tensor([1.0, 2.0, 3.0]))
        for path in (tmp_path / "cache").glob("*.rlo"):
            path.write_bytes(path.read_bytes()[:100])
        cube(rl.tensor([1.0, 2.0, 3.0]))
        cube(rl.tensor([1.0, 2.0, 3.0]))


@triggers("C043")
def graph_that_is_right_is_shrunk():
    graph = parse_graph("f(%x: f32[3]) {\n  %0 = exp(%x) : f32[3]\n  %1 = neg(%0) : f32[3]\n  return %1\n}", OPERATORS)
    shrink(graph, [np.ones(3, np.float32)])


@triggers("C044")
def loops_are_too_long_to_evaluate():
    text = "f(%x: f32[512, 512]) {\n  %0 = matmul(%x, %x) : f32[512, 512]\n  return %0\n}"
    bisect(parse_graph(text, OPERATORS), [np.zeros((512, 512), np.float32)])


@triggers("K006")
def record_is_impossible(tmp_path: Path):
    (tmp_path / "tuned.txt").write_text("cpu x2 | float32, B=1, M=8, N=8, K=8 | mr=twelve\n")
    assert not Records(str(tmp_path)).all()
