"""Matrix products: the same bits as the order says, for any tile, format, size and share of the work."""

import ctypes
import functools
import itertools
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.codegen.guarded_memory import before_a_hole

from rushlight.codegen.llvm.gemm import TASK_WORDS, choose_tile, emit_core, emit_task, plan_tiles
from rushlight.codegen.llvm.gemm_micro import edge_kernels, full_kernel, part_kernels
from rushlight.codegen.llvm.gemm_pack import emit_pack_b_panel
from rushlight.codegen.llvm.gemm_plan import emit_plan
from rushlight.ir.gemm_tile import GemmTile, narrow_products
from rushlight.ir.scalar import dtype_named
from rushlight.runtime import llvm

_ORACLE = """
define void @oracle(ptr %a, ptr %b, ptr %c, i64 %m, i64 %n, i64 %k) {
entry:
  br label %row
row:
  %i = phi i64 [ 0, %entry ], [ %i_next, %row_end ]
  br label %column
column:
  %j = phi i64 [ 0, %row ], [ %j_next, %column_end ]
  br label %step
step:
  %t = phi i64 [ 0, %column ], [ %t_next, %step_end ]
  %sum = phi FLOAT [ 0.0, %column ], [ %sum_next, %step_end ]
  %total = phi FLOAT [ 0.0, %column ], [ %total_next, %step_end ]
  %done = icmp eq i64 %t, %k
  br i1 %done, label %column_end, label %work
work:
  %a_row = mul i64 %i, %k
  %a_index = add i64 %a_row, %t
  %a_at = getelementptr FLOAT, ptr %a, i64 %a_index
  %x = load FLOAT, ptr %a_at
  %b_row = mul i64 %t, %n
  %b_index = add i64 %b_row, %j
  %b_at = getelementptr FLOAT, ptr %b, i64 %b_index
  %y = load FLOAT, ptr %b_at
  %chain = call FLOAT @llvm.fma.FTYPE(FLOAT %x, FLOAT %y, FLOAT %sum)
  %t_next = add i64 %t, 1
  %within = urem i64 %t_next, 256
  %whole = icmp eq i64 %within, 0
  br i1 %whole, label %fold, label %step_end
fold:
  %folded = fadd FLOAT %total, %chain
  br label %step_end
step_end:
  %sum_next = phi FLOAT [ %chain, %work ], [ 0.0, %fold ]
  %total_next = phi FLOAT [ %total, %work ], [ %folded, %fold ]
  br label %step
column_end:
  %rest = urem i64 %k, 256
  %exact = icmp eq i64 %rest, 0
  %some = icmp ne i64 %k, 0
  %no_rest = and i1 %exact, %some
  %last = fadd FLOAT %total, %sum
  %result = select i1 %no_rest, FLOAT %total, FLOAT %last
  %c_row = mul i64 %i, %n
  %c_index = add i64 %c_row, %j
  %c_at = getelementptr FLOAT, ptr %c, i64 %c_index
  store FLOAT %result, ptr %c_at
  %j_next = add i64 %j, 1
  %more_columns = icmp slt i64 %j_next, %n
  br i1 %more_columns, label %column, label %row_end
row_end:
  %i_next = add i64 %i, 1
  %more_rows = icmp slt i64 %i_next, %m
  br i1 %more_rows, label %row, label %exit
exit:
  ret void
}
"""
"""One scalar chain for each element: the definition, in the words that LLVM executes exactly."""

_EPILOGUE = """
define void @epilogue(ptr %args, ptr %tile, i64 %tile_ld, i64 %batch, i64 %m0, i64 %n0, i64 %rows, i64 %columns) {
entry:
  %out_word = getelementptr i64, ptr %args, i64 18
  %out = load ptr, ptr %out_word
  %ld_word = getelementptr i64, ptr %args, i64 19
  %ld = load i64, ptr %ld_word
  br label %row
row:
  %i = phi i64 [ 0, %entry ], [ %i_next, %row_end ]
  br label %column
column:
  %j = phi i64 [ 0, %row ], [ %j_next, %column ]
  %from_row = mul i64 %i, %tile_ld
  %from_index = add i64 %from_row, %j
  %from = getelementptr float, ptr %tile, i64 %from_index
  %value = load float, ptr %from
  %minus = fneg float %value
  %to_i = add i64 %m0, %i
  %to_j = add i64 %n0, %j
  %to_row = mul i64 %to_i, %ld
  %to_index = add i64 %to_row, %to_j
  %to = getelementptr float, ptr %out, i64 %to_index
  store float %minus, ptr %to
  %j_next = add i64 %j, 1
  %more_columns = icmp slt i64 %j_next, %columns
  br i1 %more_columns, label %column, label %row_end
row_end:
  %i_next = add i64 %i, 1
  %more_rows = icmp slt i64 %i_next, %rows
  br i1 %more_rows, label %row, label %exit
exit:
  ret void
}
"""

_PANEL = """
define void @panel(ptr %args, ptr %to, i64 %batch, i64 %k0, i64 %n0, i64 %steps, i64 %columns) {
entry:
  %from_word = getelementptr i64, ptr %args, i64 18
  %from = load ptr, ptr %from_word
  %ld_word = getelementptr i64, ptr %args, i64 19
  %ld = load i64, ptr %ld_word
  %none = icmp eq i64 %steps, 0
  br i1 %none, label %exit, label %step
step:
  %t = phi i64 [ 0, %entry ], [ %t_next, %step_end ]
  br label %column
column:
  %j = phi i64 [ 0, %step ], [ %j_next, %column ]
  %k = add i64 %k0, %t
  %n = add i64 %n0, %j
  %row = mul i64 %k, %ld
  %index = add i64 %row, %n
  %from_at = getelementptr FLOAT, ptr %from, i64 %index
  %value = load FLOAT, ptr %from_at
  %t_start = mul i64 %t, T_STEP
  %j_start = mul i64 %j, J_STEP
  %to_index = add i64 %t_start, %j_start
  %to_at = getelementptr FLOAT, ptr %to, i64 %to_index
  store FLOAT %value, ptr %to_at
  %j_next = add i64 %j, 1
  %more_columns = icmp slt i64 %j_next, %columns
  br i1 %more_columns, label %column, label %step_end
step_end:
  %t_next = add i64 %t, 1
  %more = icmp slt i64 %t_next, %steps
  br i1 %more, label %step, label %exit
exit:
  ret void
}
"""

SIZES = (
    *((1, 1, 1), (2, 7, 13), (7, 16, 31), (16, 33, 100), (13, 31, 255), (31, 100, 256), (33, 255, 257), (100, 13, 511)),
    *((255, 1, 513), (257, 2, 700), (1, 513, 33), (511, 7, 16), (12, 32, 2), (12, 32, 512), (130, 520, 300), (3, 5, 0)),
)


@functools.cache
def load(text: str) -> llvm.LoadedModule:
    return llvm.load_object(llvm.compile_object(text, llvm.host_target(), verify=True))


def function(module: llvm.LoadedModule, name: str, *types: Any, result: Any = None) -> Any:
    prototype = ctypes.CFUNCTYPE(result, *types)
    return prototype(module.address(name))


def tiles_of_this_machine() -> list[GemmTile]:
    """Every combination of formats at the widest vector, and some at the narrower ones, where fma is native."""
    widest = llvm.host_target().vector_bytes
    tiles = []
    for vector_bytes in (16, 32, 64):
        if widest >= vector_bytes and (widest > 16 or llvm.host_target().architecture == "aarch64"):
            tiles.append(choose_tile("float32", vector_bytes))
            tiles.append(choose_tile("float64", vector_bytes, a_format="column", a_packed=False))
            tiles.append(choose_tile("float32", vector_bytes, a_format="column", b_packed=False, b_made=True))
            for b_format in ("row", "column"):
                for b_made in (False, True):
                    tiles.append(
                        choose_tile(
                            "float32",
                            vector_bytes,
                            a_packed=False,
                            b_format=b_format,
                            b_packed=False,
                            b_made=b_made,
                        )
                    )
    tiles.append(choose_tile("float32", widest, a_format="column"))
    tiles.append(choose_tile("float32", widest, a_format="column", a_packed=False))
    tiles.append(replace(choose_tile("float64", widest), unroll=1, mc=12, nc=16))
    return tiles


def name_of(tile: GemmTile) -> str:
    return (
        f"{tile.dtype}-{tile.vector_bytes}-{tile.a_format}-a{'' if tile.a_packed else 'un'}packed"
        f"-b{'made' if tile.b_made else 'packed' if tile.b_packed else 'unpacked'}-{tile.b_format}"
    )


def packed_a(a: np.ndarray, tile: GemmTile) -> tuple[np.ndarray, int]:
    """`a` as a tile wants it, by the formulas of `gemm_tile`, and its leading dimension; padding is NaN."""
    m, k = a.shape
    if not tile.a_packed:
        return np.ascontiguousarray(a if tile.a_format == "row" else a.T), (k if tile.a_format == "row" else m)
    i, t = np.indices(a.shape)
    if tile.a_format == "row":
        size, address = 256 * m * -(-k // 256), 256 * i + t + 256 * (m - 1) * (t // 256)
    else:
        size, address = -(-m // tile.mr) * tile.mr * k, i // tile.mr * tile.mr * (k - 1) + t * tile.mr + i
    packed = np.full(max(size, 1), np.nan, a.dtype)
    packed[address] = a
    return packed, m


def packed_b(b: np.ndarray, tile: GemmTile) -> np.ndarray:
    k, n = b.shape
    if not tile.b_packed:
        return np.ascontiguousarray(b if tile.b_format == "row" else b.T)
    t, j = np.indices(b.shape)
    packed = np.full(max(-(-n // tile.nr) * tile.nr * k, 1), np.nan, b.dtype)
    packed[j // tile.nr * tile.nr * (k - 1) + t * tile.nr + j] = b
    return packed


def b_ld(b: np.ndarray, tile: GemmTile) -> int:
    return b.shape[1] if tile.b_format == "row" else b.shape[0]


def oracle(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    (m, k), n = a.shape, b.shape[1]
    element, suffix = ("float", "f32") if a.dtype == np.float32 else ("double", "f64")
    module = load(_ORACLE.replace("FLOAT", element).replace("FTYPE", suffix))
    a, b, c = np.ascontiguousarray(a), np.ascontiguousarray(b), np.full((m, n), np.nan, a.dtype)
    run = function(module, "oracle", *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 3)
    run(a.ctypes.data, b.ctypes.data, c.ctypes.data, m, n, k)
    return c


def panel_of(tile: GemmTile) -> str:
    """A function that makes panels of `b` from a matrix in memory, whose address and step follow the task's words."""
    steps = (tile.made_ld, 1) if tile.b_format == "row" else (1, tile.made_ld)
    text = _PANEL.replace("FLOAT", tile.source)
    return text.replace("T_STEP", str(steps[0])).replace("J_STEP", str(steps[1]))


ONE_BATCH = (1, 0, 0, 0)  # no inner batches: their number, and the steps of a, b and c


class Product:
    """A compiled task and plan of a tile."""

    def __init__(self, tile: GemmTile) -> None:
        self.tile = tile
        panel = panel_of(tile) if tile.b_made else ""
        task = emit_task(tile, "task", "core", panel="panel" if panel else None)
        module = load(panel + emit_core(tile, "core") + task + emit_plan(tile, "plan"))
        self.task = function(module, "task", ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
        self.plan = function(module, "plan", ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, result=ctypes.c_int64)

    def __call__(self, a: np.ndarray, b: np.ndarray, threads: int = 1, ldc: int = 0) -> np.ndarray:
        """The product; as many shares of the tiles as threads are run in reverse order."""
        (m, k), n = a.shape, b.shape[1]
        left, a_ld = packed_a(a, self.tile)
        right = np.ascontiguousarray(b) if self.tile.b_made else packed_b(b, self.tile)
        ldc = ldc or n
        c = np.full((m, ldc), 7, a.dtype)
        addresses = (left.ctypes.data, 0 if self.tile.b_made else right.ctypes.data, c.ctypes.data)
        sizes = (m, n, k, a_ld, b_ld(b, self.tile), ldc, 0, 0, 0, *ONE_BATCH, 0, 0)
        args = np.array([*addresses, *sizes, right.ctypes.data, n], np.int64)
        tasks = self.plan(args.ctypes.data, 1, threads)
        edges = [tasks * share // threads for share in range(threads + 1)]
        for begin, end in reversed(list(itertools.pairwise(edges))):
            self.task(args.ctypes.data, begin, end)
        assert (c[:, n:] == 7).all()
        return c[:, :n]


def operands(m: int, n: int, k: int, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(m * 1000003 + n * 1009 + k)
    return random.standard_normal((m, k)).astype(dtype), random.standard_normal((k, n)).astype(dtype)


def assert_same_bits(got: np.ndarray, wanted: np.ndarray) -> None:
    bits = np.uint32 if got.dtype == np.float32 else np.uint64
    same = (np.ascontiguousarray(got).view(bits) == wanted.view(bits)) | (np.isnan(got) & np.isnan(wanted))
    assert same.all(), f"{(~same).sum()} of {same.size} differ, first at {np.argwhere(~same)[0]}"


@pytest.mark.parametrize("tile", tiles_of_this_machine(), ids=name_of)
def test_product_has_the_bits_of_the_order(tile: GemmTile) -> None:
    product = Product(tile)
    for m, n, k in SIZES:
        a, b = operands(m, n, k, tile.dtype)
        assert_same_bits(product(a, b, ldc=n + 3), oracle(a, b))


def tiles_in_all_formats() -> list[GemmTile]:
    """Every combination of formats, of both dtypes, at each width of vectors where fma is native."""
    native = [size for size in (16, 32, 64) if size <= llvm.host_target().vector_bytes]
    widths = native if llvm.host_target().architecture == "aarch64" else native[1:]
    operands = [("row", True), ("row", False), ("column", True), ("column", False)]
    return [
        choose_tile(dtype, width, a_format=a_format, a_packed=a_packed, b_format=b_format, b_packed=b_packed)
        for dtype in ("float32", "float64")
        for width in widths
        for (a_format, a_packed), (b_format, b_packed) in itertools.product(operands, operands)
        if not (b_packed and b_format == "column")
    ]


def sizes_of_few_rows() -> Iterator[tuple[int, int, int]]:
    """One row of each number of columns, one column of each number of rows, and a few rows, of odd lengths."""
    for n in range(1, 41):
        k = (1, 7, 17, 255, 256, 257, 300, 513)[n % 8]
        yield from ((1, n, k), (n, 1, k), (n % 13 + 1, n, k))
    yield from ((1, 1030, 270), (1, 4, 0), (4, 1, 0), (1, 100, 512), (100, 1, 512))


@pytest.mark.parametrize("tile", tiles_in_all_formats(), ids=lambda tile: f"{name_of(tile)}-{tile.vector_bytes}")
def test_few_rows_have_the_bits_of_the_order_in_all_formats(tile: GemmTile) -> None:
    product = Product(tile)
    for m, n, k in sizes_of_few_rows():
        a, b = operands(m, n, k, tile.dtype)
        wanted = oracle(a, b)
        for threads, ldc in ((1, n), (2, n + 3)):
            assert_same_bits(product(a, b, threads, ldc), wanted)


@pytest.mark.parametrize("tile", tiles_in_all_formats()[:13:4], ids=name_of)
def test_special_numbers_in_one_row_stay_in_their_columns(tile: GemmTile) -> None:
    tiny, huge = np.finfo(tile.dtype).smallest_subnormal, np.finfo(tile.dtype).max
    numbers = np.array([0.0, -0.0, 1.0, -1.5, tiny, -tiny, huge, -huge, np.inf, -np.inf, np.nan], tile.dtype)
    random, product = np.random.default_rng(3), Product(tile)
    for count, m, n in itertools.product((6, 8, 10, 11), (1, 37), (1, 37)):
        a, b = np.ones((m, 300), tile.dtype), np.ones((300, n), tile.dtype)
        a[::3], b[:, ::3] = (
            random.choice(numbers[:count], a[::3].shape),
            random.choice(numbers[:count], b[:, ::3].shape),
        )
        assert_same_bits(product(a, b), oracle(a, b))
        a[0, 5:], b[5:, 0] = -0.0, 0.0  # short sums, which stay small
        assert_same_bits(product(a, b), oracle(a, b))


def test_any_number_of_threads_gives_the_same_bits() -> None:
    tile = choose_tile("float32", llvm.host_target().vector_bytes)
    product = Product(tile)
    a, b = operands(201, 333, 300, "float32")
    wanted = oracle(a, b)
    for threads in (2, 3, 7, 64):
        assert_same_bits(product(a, b, threads), wanted)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_special_numbers_follow_the_order(dtype: str) -> None:
    tiny = np.finfo(dtype).smallest_subnormal
    huge = np.finfo(dtype).max
    numbers = np.array([0.0, -0.0, 1.0, -1.5, tiny, -tiny, 1e3 * tiny, huge, -huge, np.inf, -np.inf, np.nan], dtype)
    random = np.random.default_rng(3)
    product = Product(choose_tile(dtype, llvm.host_target().vector_bytes))
    for count in (8, 9, 11, 12):  # without NaN and infinities first, which hide the rest
        a, b = random.choice(numbers[:count], (30, 300)), random.choice(numbers[:count], (300, 50))
        a[:15, 5:], b[5:, :25] = 0.0, -0.0  # short sums, which stay small
        assert_same_bits(product(a, b), oracle(a, b))


def test_a_sum_that_underflows_is_plus_zero() -> None:
    tile = choose_tile("float32", llvm.host_target().vector_bytes)
    a, b = np.full((13, 300), -1e-30, np.float32), np.full((300, 35), 1e-30, np.float32)
    a[:, 1:256] = 0.0
    got = Product(tile)(a[:, :256], b[:256])
    assert_same_bits(got, oracle(a[:, :256], b[:256]))
    assert not np.signbit(Product(tile)(a[:, :1], b[:1])).any()


def test_empty_products_touch_nothing() -> None:
    tile = choose_tile("float32", llvm.host_target().vector_bytes)
    product = Product(tile)
    for m, n, k in ((0, 5, 3), (5, 0, 3), (0, 0, 0)):
        args = np.array([1, 1, 1, m, n, k, m, n, n, 0, 0, 0, *ONE_BATCH, 0, 0], np.int64)
        assert product.plan(args.ctypes.data, 4, 2) == 0
        product.task(args.ctypes.data, 0, 0)


def test_batches_use_their_strides() -> None:
    tile = choose_tile("float32", llvm.host_target().vector_bytes, a_packed=False)
    product = Product(tile)
    random = np.random.default_rng(4)
    a, b = random.standard_normal((5, 19, 70)).astype(np.float32), random.standard_normal((70, 40)).astype(np.float32)
    right, c = packed_b(b, tile), np.zeros((5, 19, 40), np.float32)
    addresses = (a.ctypes.data, right.ctypes.data, c.ctypes.data)
    args = np.array([*addresses, 19, 40, 70, 70, 40, 40, 19 * 70, 0, 19 * 40, *ONE_BATCH, 0, 0], np.int64)
    tasks = product.plan(args.ctypes.data, 5, 1)
    for index in reversed(range(tasks)):
        product.task(args.ctypes.data, index, index + 1)
    for batch in range(5):
        assert_same_bits(c[batch], oracle(a[batch], b))


def test_batches_of_two_axes_have_two_strides() -> None:
    """Heads beside each other in rows, as attention has them: a[t, b, h, m, k] walks the heads by 70 elements."""
    tile = choose_tile("float32", llvm.host_target().vector_bytes, a_packed=False, b_packed=False)
    product = Product(tile)
    random = np.random.default_rng(3)
    a = random.standard_normal((2, 19, 3, 70)).astype(np.float32)  # batch, row, head, k
    b = random.standard_normal((2, 70, 3, 40)).astype(np.float32)  # batch, k, head, column
    c = np.zeros((2, 19, 3, 40), np.float32)
    addresses = (a.ctypes.data, b.ctypes.data, c.ctypes.data)
    outer = (19 * 3 * 70, 70 * 3 * 40, 19 * 3 * 40)
    args = np.array([*addresses, 19, 40, 70, 3 * 70, 3 * 40, 3 * 40, *outer, 3, 70, 40, 40, 0, 0], np.int64)
    tasks = product.plan(args.ctypes.data, 6, 1)
    product.task(args.ctypes.data, 0, tasks)
    for batch, head in itertools.product(range(2), range(3)):
        wanted = oracle(np.ascontiguousarray(a[batch, :, head]), np.ascontiguousarray(b[batch, :, head]))
        assert_same_bits(np.ascontiguousarray(c[batch, :, head]), wanted)


@pytest.mark.parametrize("scratch", [False, True])
def test_epilogue_sees_each_finished_tile_once(scratch: bool) -> None:
    tile = choose_tile("float32", llvm.host_target().vector_bytes)
    text = emit_core(tile, "core") + _EPILOGUE + emit_task(tile, "task", "core", "epilogue", scratch=scratch)
    module = load(text + emit_plan(tile, "plan", scratch=scratch))
    a, b = operands(150, 600, 300, "float32")
    left, right = packed_a(a, tile)[0], packed_b(b, tile)
    c, out = np.full((150, 600), 7, np.float32), np.zeros((150, 600), np.float32)
    addresses = (left.ctypes.data, right.ctypes.data, 0 if scratch else c.ctypes.data)
    words = [*addresses, 150, 600, 300, 150, 600, 600, 0, 0, 0, *ONE_BATCH, 0, 0, out.ctypes.data, 600]
    args = np.array(words, np.int64)
    plan = function(module, "plan", ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, result=ctypes.c_int64)
    tasks = plan(args.ctypes.data, 1, 2)
    assert tasks > 1
    function(module, "task", ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(args.ctypes.data, 0, tasks)
    assert_same_bits(out, -oracle(a, b))


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_packing_b_follows_the_formula(dtype: str, transposed: bool) -> None:
    tile = choose_tile(dtype, llvm.host_target().vector_bytes)
    text = emit_pack_b_panel(tile, "pack", transposed=transposed).replace("define internal", "define")
    module = load(text)
    pack = function(module, "pack", ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * 3)
    for n, k in ((1, 1), (7, 300), (33, 16), (100, 513), (64, 257)):
        b = operands(1, n, k, dtype)[1]
        source = np.ascontiguousarray(b.T if transposed else b)
        wanted = packed_b(b, tile)
        got = np.full_like(wanted, np.nan)
        for n0, k0 in itertools.product(range(0, n, tile.nr), range(0, k, 256)):
            place = source[n0:, k0:] if transposed else source[k0:, n0:]
            to = got[n0 * k + k0 * tile.nr :]
            pack(to.ctypes.data, place.ctypes.data, source.shape[1], min(n - n0, tile.nr), min(k - k0, 256))
        real = ~np.isnan(wanted)
        assert (got[real] == wanted[real]).all()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="guards memory with Linux's mprotect")
@pytest.mark.parametrize(("a_format", "b_format"), [("row", "row"), ("column", "column")])
@pytest.mark.parametrize("dtype", ["float32", *sorted(narrow_products(llvm.host_target()))])
def test_plain_operands_are_not_read_past_their_end(dtype: str, a_format: Any, b_format: Any) -> None:
    tile = choose_tile(dtype, llvm.host_target().vector_bytes, a_packed=False, b_packed=False)
    tile = replace(tile, a_format=a_format, b_format=b_format)
    product = Product(tile)
    for m, n, k in ((13, 35, 257), (12, 32, 256), (1, 1, 1), (7, 17, 9), (1, 35, 257), (1, 64, 256), (35, 1, 257)):
        a, b = (np.rint(4 * x).astype(dtype_named(dtype).numpy) for x in operands(m, n, k, "float32"))
        left, a_ld = packed_a(a, tile)
        total = np.zeros((m, n), np.int32 if dtype == "int8" else np.float32)
        memory = [before_a_hole(x) for x in (left, packed_b(b, tile), total)]
        addresses = [x.ctypes.data for x in memory]
        words = [*addresses, m, n, k, a_ld, b_ld(b, tile), n, 0, 0, 0, *ONE_BATCH, 0, 0]
        args = np.array(words, np.int64)
        product.task(args.ctypes.data, 0, product.plan(args.ctypes.data, 1, 1))
        assert np.array_equal(memory[2].reshape(m, n), a.astype(np.int64) @ b.astype(np.int64))  # exact in any order


@pytest.mark.parametrize("scratch", [False, True])
def test_plan_agrees_with_its_specification(scratch: bool) -> None:
    tile = choose_tile("float32", llvm.host_target().vector_bytes, a_packed=False, b_packed=False)
    module = load(emit_plan(tile, "plan", scratch=scratch))
    plan = function(module, "plan", ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, result=ctypes.c_int64)
    random = np.random.default_rng(5)
    for _ in range(100):
        m, n, k = (int(2 ** random.uniform(0, 13)) for _ in range(3))
        batches, threads = int(2 ** random.uniform(0, 7)), int(2 ** random.uniform(0, 6.1))
        args = np.zeros(len(TASK_WORDS), np.int64)
        args[[TASK_WORDS.index("m"), TASK_WORDS.index("n"), TASK_WORDS.index("k")]] = m, n, k
        tasks = plan(args.ctypes.data, batches, threads)
        rows, columns = plan_tiles(tile, m, n, k, batches, threads, scratch=scratch)
        assert tuple(args[-2:]) == (rows, columns)
        assert tasks == batches * -(-m // rows) * -(-n // columns)
        assert rows % tile.mr == columns % tile.nr == 0
        assert 0 < rows <= tile.mc
        assert 0 < columns <= (tile.scratch_nc if scratch else tile.nc)


@pytest.mark.parametrize(
    ("m", "n", "k", "batches", "threads"),
    [(2048, 256, 256, 1, 64), (128, 128, 64, 64, 64), (256, 768, 2048, 1, 16), (256, 256, 256, 1, 2)],
)
def test_plan_keeps_threads_busy(m: int, n: int, k: int, batches: int, threads: int) -> None:
    tile = choose_tile("float32", 64)
    rows, columns = plan_tiles(tile, m, n, k, batches, threads)
    tasks = batches * -(-m // rows) * -(-n // columns)
    turns = -(-tasks // threads)
    assert turns * threads * rows * columns <= 1.25 * batches * m * n


@pytest.mark.parametrize("target_name", ["x86-64-v3", "x86-64-v4", "aarch64"])
@pytest.mark.parametrize("a_format", ["row", "column"])
def test_hot_loops_keep_everything_in_registers(target_name: str, a_format: Any) -> None:
    target = llvm.target_named(target_name)
    optimise = 1 if a_format == "row" else 2
    for dtype in ("float32",) if target_name == "aarch64" else ("float32", "float64"):
        tile = choose_tile(dtype, target.vector_bytes, a_format=a_format)
        text = llvm.assembly(emit_core(tile, "core"), target, optimise)
        kernels = {f"core_{kernel.name}" for kernel in (full_kernel(tile), *part_kernels(tile), *edge_kernels(tile))}
        kernels |= {"core_narrow"} if a_format == "column" else set()
        loops = [(name, loop) for name, loop in innermost_loops(text) if name in kernels]
        products = [(name, loop) for name, loop in loops if any(re.match(r"\s*(v?fmadd|fmla)", line) for line in loop)]
        assert {name for name, _ in products} == kernels
        for _, loop in products:
            used = [line for line in loop if "prefetch" not in line]  # which may use %rbp like any other register
            assert not [line for line in used if re.search(r"\(%[re][sb]p\)|\[sp", line)], "\n".join(loop)
        assert max(len(loop) for _, loop in products) < 1.4 * tile.unroll * tile.mr * (tile.vectors + 1) + 12


@pytest.mark.parametrize(("a_format", "b_format"), [("row", "row"), ("column", "column")])
@pytest.mark.parametrize(
    ("level", "dtype", "feature", "instruction"),
    [
        ("x86-64-v4", "bfloat16", "+avx512bf16", "vdpbf16ps"),
        ("x86-64-v4", "int8", "+avx512vnni", "vpdpbusd"),
        ("x86-64-v3", "int8", "", "vpmaddwd"),
    ],
)
def test_groups_of_narrow_elements_are_one_instruction(
    level: str, dtype: str, feature: str, instruction: str, a_format: Any, b_format: Any
) -> None:
    plain = llvm.target_named(level)
    target = replace(plain, features=feature or plain.features)
    assert narrow_products(target) == {dtype}
    assert not feature or not narrow_products(plain)
    assert not narrow_products(llvm.target_named("aarch64"))
    tile = choose_tile(dtype, target.vector_bytes, a_format=a_format, b_format=b_format, a_packed=False, b_packed=False)
    text = llvm.assembly(emit_core(tile, "core"), target)
    loops = [(name, loop) for name, loop in innermost_loops(text) if "_full" in name]
    sizes = [(f"core_{kernel.name}", kernel.vectors) for kernel in (full_kernel(tile), *part_kernels(tile))]
    wanted = [(name, steps * vectors) for name, vectors in sizes for steps in dict.fromkeys((tile.unroll, 1))]
    for (name, loop), (kernel, products) in zip(loops, wanted, strict=True):
        assert name == kernel
        assert sum(instruction in line for line in loop) == tile.mr * products
        used = [line for line in loop if "prefetch" not in line]
        assert not [line for line in used if re.search(r"\(%[re]sp\)", line)], "\n".join(loop)


def innermost_loops(assembly: str) -> list[tuple[str, list[str]]]:
    """The function and the lines of each block that ends in a branch to its own start."""
    loops = []
    function_name, label, block = "", "", []
    for line in assembly.splitlines():
        if start := re.match(r"([\w.]+):", line):
            name = start.group(1)
            if not name.startswith((".L", "L")):
                function_name = name
            label, block = name, []
        else:
            block.append(line)
            if label and re.search(rf"\b(j\w+|b\.\w+|cbn?z)\b.*{re.escape(label)}$", line):
                loops.append((function_name, list(block)))
    return loops
