"""Products as tests run them: compiled tasks and plans of tiles, operands as tiles want them, and what is right."""

import ctypes
import functools
import itertools
from dataclasses import replace
from typing import Any

import numpy as np

from rushlight.codegen.llvm.gemm.macro_tile import emit_core, emit_task
from rushlight.codegen.llvm.gemm.tiling import emit_plan
from rushlight.ir.gemm_tile import GemmTile, choose_tile
from rushlight.ir.kernel import TASK_ARGS
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

EPILOGUE = """
define void @epilogue(ptr %args, ptr %tile, i64 %tile_ld, i64 %batch, i64 %m0, i64 %n0, i64 %rows, i64 %columns) {
entry:
  %out_word = getelementptr i64, ptr %args, i64 AFTER_0
  %out = load ptr, ptr %out_word
  %ld_word = getelementptr i64, ptr %args, i64 AFTER_1
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
  %from_word = getelementptr i64, ptr %args, i64 AFTER_0
  %from = load ptr, ptr %from_word
  %ld_word = getelementptr i64, ptr %args, i64 AFTER_1
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


def after_the_task(text: str) -> str:
    """A function that reads two words behind the task's own."""
    return text.replace("AFTER_0", str(len(TASK_ARGS))).replace("AFTER_1", str(len(TASK_ARGS) + 1))


def panel_of(tile: GemmTile) -> str:
    """A function that makes panels of `b` from a matrix in memory, whose address and step follow the task's words."""
    steps = (tile.made_ld, 1) if tile.b_format == "row" else (1, tile.made_ld)
    text = after_the_task(_PANEL).replace("FLOAT", tile.source)
    return text.replace("T_STEP", str(steps[0])).replace("J_STEP", str(steps[1]))


ONE_BATCH = (1, 0, 0, 0)  # no inner batches: their number, and the steps of a, b and c
NO_PARTS = (0,) * 6  # no memory for their sums; the words that the plan chooses


class Product:
    """A compiled task and plan of a tile; `parts` are those of its last call."""

    def __init__(self, tile: GemmTile, *, split_k: bool = False) -> None:
        self.tile = tile
        self.split_k = split_k
        self.parts = 0
        panel = panel_of(tile) if tile.b_made else ""
        task = emit_task(tile, "task", "core", panel="panel" if panel else None, split_k=split_k)
        module = load(panel + emit_core(tile, "core") + task + emit_plan(tile, "plan", split_k=split_k))
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
        sums = np.full((1 + -(-k // self.tile.kc), m, n), np.nan, a.dtype)
        parts = (sums.ctypes.data, m * n, *NO_PARTS[2:]) if self.split_k else NO_PARTS
        sizes = (m, n, k, a_ld, b_ld(b, self.tile), ldc, 0, 0, 0, *ONE_BATCH, *parts)
        args = np.array([*addresses, *sizes, right.ctypes.data, n], np.int64)
        tasks = self.plan(args.ctypes.data, 1, threads)
        self.parts = int(args[TASK_ARGS.index("parts")])
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
