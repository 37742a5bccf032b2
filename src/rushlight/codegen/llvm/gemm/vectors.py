"""Vectors of operands and sums in matrix products: types, masks, loads, stores, broadcasts, multiply-add.

Each function appends instructions to a `FunctionBuilder`. Names are given without `%`, values with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rushlight.codegen.llvm.builder.function_builder import FunctionBuilder
from rushlight.ir.gemm_tile import GemmTile

# By dtype and bytes of a vector: the LLVM type of a factor's elements, the instruction, and whether it adds.
_GROUP_PRODUCTS = {
    ("bfloat16", 64): ("bfloat", "llvm.x86.avx512bf16.dpbf16ps.512", True),
    ("int8", 64): ("i8", "llvm.x86.avx512.vpdpbusd.512", True),
    ("int8", 32): ("i16", "llvm.x86.avx2.pmadd.wd", False),
    ("int8", 16): ("i16", "llvm.x86.sse2.pmadd.wd", False),
}


@dataclass(frozen=True)
class Vectors:
    """A vector type: the LLVM type and bytes of an element, and the number of lanes."""

    element: str
    itemsize: int
    lanes: int

    @property
    def type(self) -> str:
        """The LLVM type."""
        return f"<{self.lanes} x {self.element}>"

    @property
    def suffix(self) -> str:
        """The type in the names of intrinsics."""
        return f"v{self.lanes}{'i' if self.element.startswith('i') else 'f'}{8 * self.itemsize}"


def sum_vectors(tile: GemmTile) -> Vectors:
    """Vectors of sums, or of packed operands."""
    return Vectors(tile.element, tile.itemsize, tile.lanes)


def source_vectors(tile: GemmTile, lanes: int) -> Vectors:
    """Vectors of elements of an operand that is not packed."""
    return Vectors(tile.source, tile.source_bytes, lanes)


def member_vectors(tile: GemmTile, lanes: int) -> Vectors:
    """Vectors of such elements as they lie in packed groups."""
    return Vectors(tile.member, tile.member_bytes, lanes)


def widen_members(code: FunctionBuilder, tile: GemmTile, lanes: int, value: str) -> str:
    """Widens a vector of an operand's elements to members of groups (int8 to int16 for `pmaddwd`)."""
    if tile.member_bytes == tile.source_bytes:
        return value
    narrow, wide = source_vectors(tile, lanes).type, member_vectors(tile, lanes).type
    return code.let(f"{value[1:]}_member", f"sext {narrow} {value} to {wide}")


def lane_mask(code: FunctionBuilder, lanes: int, count: str, suffix: str = "") -> str:
    """The mask of the first `count` lanes (an i64): true where the lane's number is below the count."""
    numbers = ", ".join([f"i32 {lane}" for lane in range(lanes)])
    vector = f"<{lanes} x i32>"
    narrow = code.let(f"count{suffix}", f"trunc i64 {count} to i32")
    one = code.let(f"count_one{suffix}", f"insertelement {vector} poison, i32 {narrow}, i32 0")
    every = code.let(f"count_all{suffix}", f"shufflevector {vector} {one}, {vector} poison, {vector} zeroinitializer")
    return code.let(f"mask{suffix}", f"icmp ult {vector} <{numbers}>, {every}")


def load_vector(code: FunctionBuilder, kind: Vectors, name: str, address: str, mask: str | None = None) -> str:
    """Loads one vector; inactive lanes are +0.0 and are not read."""
    if mask is None:
        return code.load(name, kind.type, address, kind.itemsize)
    operands = f"ptr align {kind.itemsize} {address}, <{kind.lanes} x i1> {mask}, {kind.type} zeroinitializer"
    return code.let(name, f"call {kind.type} @llvm.masked.load.{kind.suffix}.p0({operands})")


def store_vector(code: FunctionBuilder, kind: Vectors, value: str, address: str, mask: str | None = None) -> None:
    """Stores one vector, or its active lanes."""
    if mask is None:
        code.store(kind.type, value, address, kind.itemsize)
        return
    operands = f"{kind.type} {value}, ptr align {kind.itemsize} {address}, <{kind.lanes} x i1> {mask}"
    code.do(f"call void @llvm.masked.store.{kind.suffix}.p0({operands})")


def load_packed(code: FunctionBuilder, tile: GemmTile, name: str, address: str, mask: str) -> str:
    """Loads a vector of a packed `b`; inactive columns are +0.0.

    Vectors of 16 bytes have no masked load: the padding is loaded and replaced by zeros.
    """
    if tile.vector_bytes > 16:
        return load_vector(code, sum_vectors(tile), name, address, mask)
    padded = load_vector(code, sum_vectors(tile), f"{name}_padded", address)
    chosen = f"<{tile.lanes} x i1> {mask}, {tile.vector} {padded}, {tile.vector} zeroinitializer"
    return code.let(name, f"select {chosen}")


def broadcast(code: FunctionBuilder, kind: Vectors, name: str, value: str) -> str:
    """Broadcasts a scalar to all lanes."""
    one = code.let(f"{name}_one", f"insertelement {kind.type} poison, {kind.element} {value}, i32 0")
    zeros = f"<{kind.lanes} x i32> zeroinitializer"
    return code.let(name, f"shufflevector {kind.type} {one}, {kind.type} poison, {zeros}")


def multiply_add(code: FunctionBuilder, tile: GemmTile, name: str, operands: Sequence[str]) -> str:
    """`a * b + c` of vectors, rounded once; for groups, the sum of each group's products, added to `c`."""
    a, b, c = operands
    if tile.group == 1:
        vector = tile.vector
        return code.let(name, f"call {vector} @llvm.fma.{tile.suffix}({vector} {a}, {vector} {b}, {vector} {c})")
    element, instruction, adds = _GROUP_PRODUCTS[tile.dtype, tile.vector_bytes]
    groups = f"<{tile.group * tile.lanes} x {element}>"
    a = code.let(f"{name}_0", f"bitcast {tile.vector} {a} to {groups}")
    b = code.let(f"{name}_1", f"bitcast {tile.vector} {b} to {groups}")
    factors = f"{groups} {a}, {groups} {b}"
    if adds:
        return code.let(name, f"call {tile.vector} @{instruction}({tile.vector} {c}, {factors})")
    product = code.let(f"{name}_product", f"call {tile.vector} @{instruction}({factors})")
    return code.let(name, f"add {tile.vector} {c}, {product}")
