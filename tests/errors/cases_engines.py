"""Causes of the errors of sizes, native code, memory and cache, below the tensors."""

import resource
from pathlib import Path

import numpy as np

from errorcases import triggers
from rushlight import sym
from rushlight.runtime import llvm
from rushlight.runtime.allocator import Allocator, Storage
from rushlight.runtime.objects import ObjectCache

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
