"""Matrix products: the same bits as the order says, for any tile, format, size and share of the work."""

import ctypes
import itertools
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.codegen.gemm_products import (
    EPILOGUE,
    NO_PARTS,
    ONE_BATCH,
    Product,
    after_the_task,
    assert_same_bits,
    b_ld,
    function,
    load,
    name_of,
    operands,
    oracle,
    packed_a,
    packed_b,
    tiles_in_all_formats,
    tiles_of_this_machine,
)
from tests.codegen.guarded_memory import before_a_hole

from rushlight.codegen.llvm.gemm.macro_tile import emit_core, emit_task
from rushlight.codegen.llvm.gemm.micro_kernel import edge_kernels, full_kernel, part_kernels
from rushlight.codegen.llvm.gemm.narrow import most_narrow
from rushlight.codegen.llvm.gemm.packing import emit_pack_b_panel
from rushlight.codegen.llvm.gemm.tiling import emit_plan
from rushlight.ir.gemm_tile import GemmTile, choose_tile, narrow_products, plan_tiles
from rushlight.ir.kernel import TASK_ARGS
from rushlight.ir.scalar import dtype_named
from rushlight.runtime import llvm

SIZES = (
    *((1, 1, 1), (2, 7, 13), (7, 16, 31), (16, 33, 100), (13, 31, 255), (31, 100, 256), (33, 255, 257), (100, 13, 511)),
    *((255, 1, 513), (257, 2, 700), (1, 513, 33), (511, 7, 16), (12, 32, 2), (12, 32, 512), (130, 520, 300), (3, 5, 0)),
)


@pytest.mark.parametrize("tile", tiles_of_this_machine(), ids=name_of)
def test_product_has_the_bits_of_the_order(tile: GemmTile) -> None:
    product = Product(tile)
    for m, n, k in SIZES:
        a, b = operands(m, n, k, tile.dtype)
        assert_same_bits(product(a, b, ldc=n + 3), oracle(a, b))


def sizes_of_few_rows() -> Iterator[tuple[int, int, int]]:
    """One row of each number of columns, one column of each number of rows, and a few rows, of odd lengths."""
    for n in range(1, 41):
        k = (1, 7, 17, 255, 256, 257, 300, 513)[n % 8]
        yield from ((1, n, k), (n, 1, k), (n % 13 + 1, n, k))
    yield from ((1, 1030, 270), (1, 4, 0), (4, 1, 0), (1, 100, 512), (100, 1, 512))


@pytest.mark.generated
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
        args = np.array([1, 1, 1, m, n, k, m, n, n, 0, 0, 0, *ONE_BATCH, *NO_PARTS], np.int64)
        assert product.plan(args.ctypes.data, 4, 2) == 0
        product.task(args.ctypes.data, 0, 0)


def test_batches_use_their_strides() -> None:
    tile = choose_tile("float32", llvm.host_target().vector_bytes, a_packed=False)
    product = Product(tile)
    random = np.random.default_rng(4)
    a, b = random.standard_normal((5, 19, 70)).astype(np.float32), random.standard_normal((70, 40)).astype(np.float32)
    right, c = packed_b(b, tile), np.zeros((5, 19, 40), np.float32)
    addresses = (a.ctypes.data, right.ctypes.data, c.ctypes.data)
    args = np.array([*addresses, 19, 40, 70, 70, 40, 40, 19 * 70, 0, 19 * 40, *ONE_BATCH, *NO_PARTS], np.int64)
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
    args = np.array([*addresses, 19, 40, 70, 3 * 70, 3 * 40, 3 * 40, *outer, 3, 70, 40, 40, *NO_PARTS], np.int64)
    tasks = product.plan(args.ctypes.data, 6, 1)
    product.task(args.ctypes.data, 0, tasks)
    for batch, head in itertools.product(range(2), range(3)):
        wanted = oracle(np.ascontiguousarray(a[batch, :, head]), np.ascontiguousarray(b[batch, :, head]))
        assert_same_bits(np.ascontiguousarray(c[batch, :, head]), wanted)


@pytest.mark.parametrize("split_k", [False, True])
@pytest.mark.parametrize("scratch", [False, True])
def test_epilogue_sees_each_finished_tile_once(scratch: bool, split_k: bool) -> None:
    tile = choose_tile("float32", llvm.host_target().vector_bytes, b_packed=not split_k)
    task = emit_task(tile, "task", "core", "epilogue", scratch=scratch, split_k=split_k)
    plan_text = emit_plan(tile, "plan", scratch=scratch, split_k=split_k)
    module = load(emit_core(tile, "core") + after_the_task(EPILOGUE) + task + plan_text)
    m, n, k = (9, 21, 40000) if split_k else (150, 600, 300)
    a, b = operands(m, n, k, "float32")
    left, right = packed_a(a, tile)[0], packed_b(b, tile)
    c, out = np.full((m, n), 7, np.float32), np.zeros((m, n), np.float32)
    sums = np.full((1 + -(-k // tile.kc), m, n), np.nan, np.float32)
    addresses = (left.ctypes.data, right.ctypes.data, 0 if scratch else c.ctypes.data)
    words = [*addresses, m, n, k, m, n, n, 0, 0, 0, *ONE_BATCH, sums.ctypes.data, m * n, *NO_PARTS[2:]]
    args = np.array([*words, out.ctypes.data, n], np.int64)
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


@pytest.mark.row("6.10")
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
        words = [*addresses, m, n, k, a_ld, b_ld(b, tile), n, 0, 0, 0, *ONE_BATCH, *NO_PARTS]
        args = np.array(words, np.int64)
        product.task(args.ctypes.data, 0, product.plan(args.ctypes.data, 1, 1))
        assert np.array_equal(memory[2].reshape(m, n), a.astype(np.int64) @ b.astype(np.int64))  # exact in any order


@pytest.mark.parametrize("split_k", [False, True])
@pytest.mark.parametrize("scratch", [False, True])
def test_plan_agrees_with_its_specification(scratch: bool, split_k: bool) -> None:
    tile = choose_tile("float32", llvm.host_target().vector_bytes, a_packed=False, b_packed=False)
    module = load(emit_plan(tile, "plan", scratch=scratch, split_k=split_k))
    plan = function(module, "plan", ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, result=ctypes.c_int64)
    random = np.random.default_rng(5)
    counters = np.zeros(1 << 20, np.float32)
    seen = set()
    for _ in range(100):
        m, n, k = (int(2 ** random.uniform(0, most)) for most in (13, 13, 17 if split_k else 13))
        batches, threads = int(2 ** random.uniform(0, 7)), int(2 ** random.uniform(0, 6.1))
        args = np.zeros(len(TASK_ARGS), np.int64)
        args[[TASK_ARGS.index("m"), TASK_ARGS.index("n"), TASK_ARGS.index("k")]] = m, n, k
        args[[TASK_ARGS.index("sums"), TASK_ARGS.index("sums_step")]] = counters.ctypes.data, batches * m * n
        tasks = plan(args.ctypes.data, batches, threads)
        rows, columns, parts, steps = plan_tiles(tile, m, n, k, batches, threads, scratch=scratch, split_k=split_k)
        assert args[TASK_ARGS.index("parts")] == parts
        assert args[TASK_ARGS.index("part_steps")] == steps
        assert parts == 1 or (parts - 1) * steps < k <= parts * steps
        seen.add(parts > 1)
        assert tuple(args[[TASK_ARGS.index("tile_m"), TASK_ARGS.index("tile_n")]]) == (rows, columns)
        assert tasks == batches * -(-m // rows) * -(-n // columns) * parts
        assert rows % tile.mr == columns % tile.nr == 0
        assert 0 < rows <= tile.mc
        assert 0 < columns <= (tile.scratch_nc if scratch else tile.nc)
    assert seen == {False, split_k}


@pytest.mark.parametrize(
    ("m", "n", "k", "batches", "threads"),
    [(2048, 256, 256, 1, 64), (128, 128, 64, 64, 64), (256, 768, 2048, 1, 16), (256, 256, 256, 1, 2)],
)
def test_plan_keeps_threads_busy(m: int, n: int, k: int, batches: int, threads: int) -> None:
    tile = choose_tile("float32", 64)
    rows, columns, *_ = plan_tiles(tile, m, n, k, batches, threads)
    tasks = batches * -(-m // rows) * -(-n // columns)
    turns = -(-tasks // threads)
    assert turns * threads * rows * columns <= 1.25 * batches * m * n


def test_known_rows_choose_the_shape_that_leaves_fewest_over() -> None:
    shapes = {rows: choose_tile("float32", 64, rows=rows).mr for rows in (0, 1, 12, 64, 96, 128, 512, 768)}
    assert shapes == {0: 12, 1: 8, 12: 12, 64: 8, 96: 12, 128: 8, 512: 8, 768: 12}
    assert choose_tile("float32", 32, rows=64).mr == choose_tile("float32", 32).mr
    assert choose_tile("bfloat16", 64, rows=64).mr == choose_tile("bfloat16", 64).mr


@pytest.mark.parametrize("target_name", ["x86-64-v3", "x86-64-v4", "aarch64"])
@pytest.mark.parametrize("a_format", ["row", "column"])
def test_hot_loops_keep_everything_in_registers(target_name: str, a_format: Any) -> None:
    target = llvm.target_named(target_name)
    optimise = 1 if a_format == "row" else 2
    for dtype in ("float32",) if target_name == "aarch64" else ("float32", "float64"):
        tile = choose_tile(dtype, target.vector_bytes, a_format=a_format)
        text = llvm.assembly(emit_core(tile, "core"), target, optimise)
        kernels = {f"core_{kernel.name}" for kernel in (full_kernel(tile), *part_kernels(tile), *edge_kernels(tile))}
        kernels |= {f"core_narrow_{columns}" for columns in (1, 2, 4) if columns <= most_narrow(tile)}
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
