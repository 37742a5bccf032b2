"""The door to LLVM: what is compiled, what is refused, and that both linkers agree."""

import ctypes
import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rushlight.runtime import elf, link, llvm
from rushlight.support.errors import CompileError, InternalError

MULTIPLY_ADD = """
define void @k(ptr %p) {
  %a = load <8 x float>, ptr %p, align 4
  %b = fmul <8 x float> %a, %a
  %c = fadd <8 x float> %b, %a
  store <8 x float> %c, ptr %p, align 4
  ret void
}
"""

# Reads a constant table, writes a global, calls an inner function and an outer one: every kind of reference.
REFERENCES = """
@table = private constant [4 x i64] [i64 10, i64 20, i64 30, i64 40]
@counter = global i64 5
@size = global i64 32
@pointers = private global [2 x ptr] [ptr @counter, ptr @double]
declare ptr @memcpy(ptr, ptr, i64)
define internal i64 @double(i64 %x) noinline {
  %y = add i64 %x, %x
  ret i64 %y
}
define i64 @k(i64 %i) {
  %copy = alloca [4 x i64]
  %size = load volatile i64, ptr @size
  %unused = call ptr @memcpy(ptr %copy, ptr @table, i64 %size)
  %at = getelementptr i64, ptr %copy, i64 %i
  %x = load volatile i64, ptr %at
  %fn.at = getelementptr ptr, ptr @pointers, i64 1
  %fn = load volatile ptr, ptr %fn.at
  %y = call i64 %fn(i64 %x)
  %old = load i64, ptr @counter
  %new = add i64 %old, %y
  store i64 %new, ptr @counter
  ret i64 %new
}
"""


def call(address, *args):
    return ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * len(args))(address)(*args)


def test_product_and_sum_stay_two_instructions():
    for level in (1, 2):
        text = llvm.assembly(MULTIPLY_ADD, llvm.target_named("x86-64-v3"), level)
        assert "vmulps" in text
        assert "fmadd" not in text


def test_fma_is_one_instruction_where_written():
    text = MULTIPLY_ADD.replace(
        "%b = fmul <8 x float> %a, %a\n  %c = fadd <8 x float> %b, %a",
        "%c = call <8 x float> @llvm.fma.v8f32(<8 x float> %a, <8 x float> %a, <8 x float> %a)",
    )
    text += "declare <8 x float> @llvm.fma.v8f32(<8 x float>, <8 x float>, <8 x float>)"
    assert "fmadd" in llvm.assembly(text, llvm.target_named("x86-64-v3"))


@pytest.mark.parametrize(("name", "register", "vector_bytes"), [("x86-64-v3", "%ymm", 32), ("x86-64-v4", "%zmm", 64)])
def test_target_levels_use_their_registers(name, register, vector_bytes):
    target = llvm.target_named(name)
    assert target.vector_bytes == vector_bytes
    text = llvm.assembly(MULTIPLY_ADD.replace("8 x", "16 x"), target)
    assert register in text
    assert vector_bytes == 64 or "%zmm" not in text


def test_aarch64_objects_come_from_any_machine():
    target = llvm.target_named("aarch64")
    assert elf.ElfObject(llvm.compile_object(MULTIPLY_ADD, target)).machine == elf.MACHINE_AARCH64
    assert "fmla" not in llvm.assembly(MULTIPLY_ADD, target)


def test_unknown_target_is_refused_by_name():
    with pytest.raises(CompileError, match="no such target") as caught:
        llvm.target_named("x86-65")
    assert caught.value.code == "C006"


@pytest.mark.parametrize("text", ["define void @k( {", "define i64 @k() {\n  ret i32 0\n}"])
def test_wrong_text_is_refused(text):
    with pytest.raises(CompileError) as caught:
        llvm.compile_object(text, llvm.host_target(), verify=True)
    assert caught.value.code == "C004"


def test_undefined_symbols_are_those_from_outside():
    obj = llvm.compile_object(REFERENCES, llvm.baseline_target())
    assert llvm.undefined_symbols(obj) == {"memcpy"}


def test_unknown_symbol_is_refused_before_loading():
    text = "declare double @cbrt(double)\ndefine double @k(double %x) {\n  %y = call double @cbrt(double %x)\n"
    obj = llvm.compile_object(text + "  ret double %y\n}", llvm.host_target())
    with pytest.raises(CompileError, match="cbrt") as caught:
        llvm.load_object(obj)
    assert caught.value.code == "C005"


def test_libcall_that_nobody_wrote_is_refused():
    text = "define float @k(float %x, float %y) {\n  %z = frem float %x, %y\n  ret float %z\n}"
    with pytest.raises(CompileError, match="fmodf"):
        llvm.load_object(llvm.compile_object(text, llvm.host_target()))


@pytest.mark.parametrize("use_llvm", [False, True])
@pytest.mark.parametrize("level", [1, 2])
def test_linked_code_reaches_tables_globals_and_functions(use_llvm, level):
    module = llvm.load_object(llvm.compile_object(REFERENCES, llvm.host_target(), level), use_llvm=use_llvm)
    address = module.address("k")
    assert [call(address, i) for i in range(4)] == [25, 65, 125, 205]
    assert ctypes.c_int64.from_address(module.address("counter")).value == 205


def test_own_linker_is_used_where_it_can_be():
    obj = elf.ElfObject(llvm.compile_object(REFERENCES, llvm.target_named("x86-64")))
    if link.can_link_here():
        image = link.link(obj, llvm.bound_symbols())
        assert call(image.addresses["k"], 0) == 25


def test_object_with_constructors_is_left_to_llvm():
    text = """
    @llvm.global_ctors = appending global [1 x { i32, ptr, ptr }] [{ i32, ptr, ptr } { i32 0, ptr @f, ptr null }]
    @g = global i64 0
    define void @f() {
      store volatile i64 1, ptr @g
      ret void
    }
    """
    obj = elf.ElfObject(llvm.compile_object(text, llvm.target_named("x86-64")))
    with pytest.raises(link.UnsupportedObject):
        link.link(obj, llvm.bound_symbols())


def test_missing_name_is_an_error():
    module = llvm.load_object(llvm.compile_object(REFERENCES, llvm.baseline_target()))
    with pytest.raises(InternalError, match="nothing_here"):
        module.address("nothing_here")


def test_object_cut_short_is_an_error():
    obj = llvm.compile_object(REFERENCES, llvm.baseline_target())
    for damaged in (obj[: len(obj) // 2], b"", b"not an object at all" * 8):
        with pytest.raises(InternalError, match="ELF"):
            llvm.load_object(damaged)


def test_code_is_unmapped_with_its_module():
    module = llvm.load_object(llvm.compile_object(REFERENCES, llvm.baseline_target()))
    start = module.address("k") & -4096
    maps = Path("/proc/self/maps")
    if not maps.exists():
        return
    assert any(
        int(line.split("-")[0], 16) <= start < int(line.split("-")[1].split()[0], 16) and "r-xp" in line
        for line in maps.read_text().splitlines()
    )
    del module
    gc.collect()
    assert not any(line.split("-")[0] == f"{start:x}" and "r-xp" in line for line in maps.read_text().splitlines())


def test_always_inline_functions_vanish_at_level_1():
    text = """
    define internal i64 @inner(i64 %x) alwaysinline {
      %y = mul i64 %x, 3
      ret i64 %y
    }
    define i64 @outer(i64 %x) {
      %y = call i64 @inner(i64 %x)
      ret i64 %y
    }
    """
    assert "inner" not in llvm.optimised_text(text, llvm.host_target())


def test_threads_may_compile_at_once():
    barrier = threading.Barrier(4)

    def work(i):
        barrier.wait()
        text = f"define i64 @k() {{\n  ret i64 {i}\n}}"
        module = llvm.load_object(llvm.compile_object(text, llvm.host_target()))
        return call(module.address("k"))

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(work, range(4))) == [0, 1, 2, 3]


def test_host_target_is_a_target_of_this_machine():
    host = llvm.host_target()
    assert host.vector_bytes in (16, 32, 64)
    assert host.architecture == llvm.baseline_target().architecture
    assert llvm.runs_here(host)
    assert llvm.runs_here(llvm.baseline_target())
    assert llvm.runs_here(llvm.target_named("aarch64")) == (host.architecture == "aarch64")
    assert llvm.version()[0].isdigit()
