"""Asks an x86-64 processor for its level: 2, 3 or 4 as in the System V ABI, or 1.

The levels are those of the x86-64 psABI supplement, section 3.1.1. A level counts only if the operating system saves
its registers, which register XCR0 tells.
"""

from __future__ import annotations

from rushlight.codegen.llvm.builder.function_builder import FunctionBuilder

_CPUID = (
    'call { i32, i32, i32, i32 } asm sideeffect "cpuid", '
    '"={ax},={bx},={cx},={dx},{ax},{cx},~{dirflag},~{fpsr},~{flags}"'
)
_XGETBV = 'call { i32, i32 } asm sideeffect "xgetbv", "={ax},={dx},{cx},~{dirflag},~{fpsr},~{flags}"(i32 0)'
_REGISTERS = ("a", "b", "c", "d")

# Bits of the registers that `cpuid` fills, by leaf: what each level needs beyond the one before.
_SSE = {"sse3": 0, "ssse3": 9, "cmpxchg16b": 13, "sse4.1": 19, "sse4.2": 20, "popcnt": 23}
_AVX = {"fma": 12, "movbe": 22, "osxsave": 27, "avx": 28, "f16c": 29}
_AVX2 = {"bmi": 3, "avx2": 5, "bmi2": 8}
_AVX512 = {"f": 16, "dq": 17, "cd": 28, "bw": 30, "vl": 31}
_LZCNT = {"lzcnt": 5}
_OSXSAVE = 27
_YMM_SAVED, _ZMM_SAVED = 0x6, 0xE6


def emit_level(name: str) -> str:
    """The function `i64 @name()` that returns the level."""
    code = FunctionBuilder(f"define internal i64 @{name}() noinline")
    highest = _leaf(code, 0)["a"]
    basic = _leaf(code, 1)["c"]
    has_seven = code.let("has_seven", f"icmp uge i32 {highest}, 7")
    extended = _leaf(code, 7)["b"]
    features = code.let("features", f"select i1 {has_seven}, i32 {extended}, i32 0")
    more = _leaf(code, 0x80000001)["c"]
    saves = _has(code, "saves", basic, 1 << _OSXSAVE)
    code.branch(saves, "ask", "decide")
    code.block("ask")
    registers = code.let("registers", _XGETBV)
    asked = code.let("asked", f"extractvalue {{ i32, i32 }} {registers}, 0")
    code.jump("decide")
    code.block("decide")
    saved = code.let("saved", f"phi i32 [ 0, %entry ], [ {asked}, %ask ]")
    two = _has(code, "two", basic, _mask(_SSE))
    three = two
    for part, register, mask in (
        ("avx", basic, _mask(_AVX)),
        ("avx2", features, _mask(_AVX2)),
        ("lzcnt", more, _mask(_LZCNT)),
        ("ymm", saved, _YMM_SAVED),
    ):
        three = code.let(f"three_{part}", f"and i1 {three}, {_has(code, part, register, mask)}")
    four = three
    for part, register, mask in (("avx512", features, _mask(_AVX512)), ("zmm", saved, _ZMM_SAVED)):
        four = code.let(f"four_{part}", f"and i1 {four}, {_has(code, part, register, mask)}")
    level = "1"
    for number, holds in ((2, two), (3, three), (4, four)):
        level = code.let(f"level_{number}", f"select i1 {holds}, i64 {number}, i64 {level}")
    return code.finish(f"i64 {level}")


def _leaf(code: FunctionBuilder, number: int) -> dict[str, str]:
    result = code.let(f"leaf_{number}", f"{_CPUID}(i32 {number if number < 1 << 31 else number - (1 << 32)}, i32 0)")
    return {
        register: code.let(f"leaf_{number}_{register}", f"extractvalue {{ i32, i32, i32, i32 }} {result}, {index}")
        for index, register in enumerate(_REGISTERS)
    }


def _mask(bits: dict[str, int]) -> int:
    return sum(1 << bit for bit in bits.values())


def _has(code: FunctionBuilder, name: str, register: str, mask: int) -> str:
    signed = mask if mask < 1 << 31 else mask - (1 << 32)
    present = code.let(f"{name}_bits", f"and i32 {register}, {signed}")
    return code.let(f"{name}_present", f"icmp eq i32 {present}, {signed}")
