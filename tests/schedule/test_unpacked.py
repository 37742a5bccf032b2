"""Products with weights packed as int4, written with ordinary operators: exact, and never unpacked in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.schedule.product_order import assert_same_bits, numpy_dtype, product_of_order

import rushlight as rl
from rushlight.build.pipeline import run_passes
from rushlight.ir.dtype import int8
from rushlight.ir.graph import Graph
from rushlight.ir.kernel import GemmKernel, Kernel
from rushlight.ir.plan import Plan
from rushlight.ir.scalar import OPS
from rushlight.ir.target import Target
from rushlight.sym import Size
from rushlight.term import postorder

Array = np.ndarray[Any, Any]
TARGET = Target("x86_64-unknown-linux-gnu", "x86-64-v4", "", 64)
GROUP = 6


def nibbles(w: Any) -> tuple[Any, Any]:
    """The low and the high half of each byte, as signed numbers."""
    low = w & 15
    return rl.where(low >= 8, low - 16, low), w >> 4


def unpack_pairs(w: Any) -> Any:
    """[K, N] from [K / 2, N]: each byte has two rows."""
    return rl.stack(nibbles(w), dim=1).reshape(2 * w.shape[0], w.shape[1])


def unpack_by_shifts(w: Any) -> Any:
    """The same, the sign extended by a shift."""
    return rl.stack([w << 4 >> 4, w >> 4], dim=1).reshape(2 * w.shape[0], w.shape[1])


def unpack_halves(w: Any) -> Any:
    """[K, N] from [K / 2, N]: the low halves have the first rows, the high halves the others."""
    return rl.cat(nibbles(w), dim=0)


def unpack_columns(w: Any) -> Any:
    """[K, N] from [N, K / 2], as a linear layer keeps its weight."""
    return rl.stack(nibbles(w), dim=-1).reshape(w.shape[0], 2 * w.shape[1]).mT


def pack(numbers: Array, layout: str) -> Array:
    """The bytes that `UNPACK[layout]` takes for a matrix [K, N] of numbers from -8 to 7."""
    if layout == "columns":
        return np.ascontiguousarray(pack(numbers, "pairs").T)
    half = len(numbers) // 2
    low, high = (numbers[:half], numbers[half:]) if layout == "halves" else (numbers[0::2], numbers[1::2])
    return (low & 15 | high << 4).astype(np.int8)


UNPACK: dict[str, Callable[[Any], Any]] = {
    "pairs": unpack_pairs,
    "shifts": unpack_by_shifts,
    "halves": unpack_halves,
    "columns": unpack_columns,
}
by_layout = pytest.mark.parametrize("layout", list(UNPACK))


def plain_product(layout: str) -> Callable[..., Any]:
    unpack = UNPACK[layout]
    return lambda x, w: x @ unpack(w).to(x.dtype)


def scaled_product(layout: str) -> Callable[..., Any]:
    """With a scale for each group of rows and each column, [K / GROUP, N]."""
    unpack = UNPACK[layout]

    def run(x: Any, w: Any, scales: Any) -> Any:
        numbers = unpack(w).to(x.dtype)
        k, n = numbers.shape
        return x @ (numbers.reshape(k // GROUP, GROUP, n) * scales.to(x.dtype)[:, None]).reshape(k, n)

    return run


def every_way(function: Callable[..., Any]) -> list[Callable[..., Any]]:
    return [function, rl.compile(function), rl.compile(function, dynamic=False), rl.compile(function, dynamic=True)]


@by_layout
def test_all_bytes_are_unpacked(layout: str) -> None:
    low, high = (part.astype(np.int8) for part in np.divmod(np.arange(256), 16)[::-1])
    bytes_ = (low | high << 4).astype(np.int8).reshape(16, 16)
    signed = np.where(low >= 8, low - 16, low), np.where(high >= 8, high - 16, high)
    for run in every_way(plain_product(layout)):
        found = run(rl.eye(32), rl.tensor(bytes_.T if layout == "columns" else bytes_).contiguous()).numpy()
        halves = (found[:16], found[16:]) if layout == "halves" else (found[0::2], found[1::2])
        for half, wanted in zip(halves, signed, strict=True):
            assert np.array_equal(half, wanted.reshape(16, 16))


@pytest.mark.generated("dtype")
@by_layout
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_products_are_exact(layout: str, dtype: str, threads: int) -> None:
    random = np.random.default_rng(21)
    runs = every_way(plain_product(layout))
    sizes = [(1, 1, 2), (1, 70, 514), (2, 33, 66), (3, 8, 258), (5, 1, 34), (16, 300, 602), (37, 95, 130), (400, 40, 6)]
    for m, n, k in sizes:
        x, numbers = random.integers(-4, 5, (m, k)), random.integers(-8, 8, (k, n))
        wanted = (x @ numbers).astype(np.float32).astype(numpy_dtype(dtype))
        left, right = rl.tensor(x.astype(numpy_dtype(dtype))), rl.tensor(pack(numbers, layout))
        for run in runs:
            assert_same_bits(run(left, right), wanted)


@pytest.mark.generated("dtype")
@by_layout
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_scaled_products_have_the_bits_of_the_order(layout: str, dtype: str, threads: int) -> None:
    random = np.random.default_rng(22)
    runs = every_way(scaled_product(layout))
    for m, n, k in [(1, 70, 516), (2, 9, 66), (16, 100, 606), (37, 95, 132)]:
        x, scales = (random.standard_normal(shape).astype(numpy_dtype(dtype)) for shape in ((m, k), (k // GROUP, n)))
        numbers = random.integers(-8, 8, (k, n))
        right = numbers.astype(x.dtype) * np.repeat(scales, GROUP, axis=0)
        for run in runs:
            found = run(rl.tensor(x), rl.tensor(pack(numbers, layout)), rl.tensor(scales))
            assert_same_bits(found, product_of_order(x, right))


@by_layout
def test_one_compiled_product_serves_any_number_of_rows(layout: str) -> None:
    random = np.random.default_rng(23)
    numbers = random.integers(-8, 8, (516, 70))
    w = rl.tensor(pack(numbers, layout))
    run = rl.compile(lambda x: x @ UNPACK[layout](w).to(x.dtype), dynamic=True)
    for m in (5, 1, 2, 40, 700):
        x = random.standard_normal((m, 516)).astype(np.float32)
        assert_same_bits(run(rl.tensor(x)), product_of_order(x, numbers.astype(np.float32)))


def plan_of(graph: Graph) -> Plan:
    return run_passes(graph, TARGET, until="07-tiled.ir")


def stored(plan: Plan) -> list[tuple[Size, ...]]:
    """The shapes of what is stored, but for sums that parts of a product would make apart."""
    return [slot.buffer.type.shape for slot in plan.slots if not slot.buffer.name.endswith("_sums")]


@pytest.mark.generated("layout")
@by_layout
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("scaled", [False, True], ids=["plain", "scaled"])
@pytest.mark.parametrize("rows", [1, 16])
def test_nothing_is_unpacked_in_memory(
    layout: str, dynamic: bool, scaled: bool, rows: int, captured: Callable[..., Graph]
) -> None:
    x, w = rl.ones(rows, 258), rl.tensor(pack(np.ones((258, 70), int), layout))
    product = scaled_product(layout) if scaled else plain_product(layout)
    arguments = (x, w, rl.ones(258 // GROUP, 70)) if scaled else (x, w)
    plan = plan_of(captured(product, *arguments, dynamic=dynamic))
    assert len(plan.launches) == 1
    assert not stored(plan)
    made = [kernel.tile.b_format for kernel in plan.kernels if isinstance(kernel, GemmKernel) and kernel.tile.b_made]
    if layout == "columns" and not scaled:
        assert made == ["column"]
    elif rows > 1:
        assert made == ["row"]


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_few_rows_share_what_is_unpacked(rows: int, captured: Callable[..., Graph]) -> None:
    arguments = rl.ones(rows, 768), rl.tensor(pack(np.ones((768, 300), int), "pairs")), rl.ones(768 // GROUP, 300)
    (kernel,) = plan_of(captured(scaled_product("pairs"), *arguments, dynamic=False)).kernels
    assert isinstance(kernel, Kernel)
    assert [axis.extent for axis in kernel.parallel_axes] == [2]
    terms = list(postorder([root for store in kernel.stores() for root in store.roots]))
    read = [term for term in terms if term.op is OPS["load"] and term.type is int8]
    steps = 8 // rows // 2 * 2  # an even number, so that halves of one byte are together
    assert len([term for term in terms if term.op is OPS["fma"]]) == rows * steps
    assert len(read) == steps // 2
    assert not any(term.op is OPS["guard"] for term in terms)


@pytest.mark.generated("k")
@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("k", [64, 66, 254, 256, 258, 512, 520, 1030])
def test_few_rows_have_the_bits_of_the_order(rows: int, k: int, threads: int) -> None:
    random = np.random.default_rng(k)
    for n in (31, 32, 33, 255, 256, 257, 530):
        x, numbers = random.standard_normal((rows, k)).astype(np.float32), random.integers(-8, 8, (k, n))
        numbers[:, 0] = 0
        x[0, :: 1 + k % 7] = np.float32(-0.0)
        for layout in ("pairs", "shifts"):
            for run in every_way(plain_product(layout)):
                found = run(rl.tensor(x), rl.tensor(pack(numbers, layout)))
                assert_same_bits(found, product_of_order(x, numbers.astype(np.float32)))


def test_few_rows_pass_infinities_and_nan_on() -> None:
    x, numbers = np.ones((2, 128), np.float32), np.ones((128, 40), int)
    x[0, 3], x[1, 5] = np.inf, np.nan
    numbers[3, 7] = 0
    found = rl.compile(plain_product("pairs"))(rl.tensor(x), rl.tensor(pack(numbers, "pairs"))).numpy()
    assert np.array_equal(np.isnan(found), np.array([np.arange(40) == 7, np.ones(40, bool)]))
    assert np.isposinf(np.delete(found[0], 7)).all()


def test_what_is_no_larger_than_its_sources_is_stored(captured: Callable[..., Graph]) -> None:
    def product(x: Any, y: Any, z: Any) -> Any:
        return x @ (y * z + y.sin()).relu()

    plan = plan_of(captured(product, rl.ones(16, 64), rl.ones(64, 70), rl.ones(64, 70), dynamic=False))
    assert stored(plan) == [(64, 70)]


def test_what_takes_long_to_compute_is_stored(captured: Callable[..., Graph]) -> None:
    def product(x: Any, y: Any) -> Any:
        return x @ y.float().sin().exp()

    y = rl.ones(64, 70, dtype=rl.int8)
    plan = plan_of(captured(product, rl.ones(16, 64), y, dynamic=False))
    assert stored(plan) == [(64, 70)]


def test_what_each_of_many_rows_would_compute_again_is_stored(captured: Callable[..., Graph]) -> None:
    product = plain_product("halves")
    w = rl.tensor(pack(np.ones((32, 4), int), "halves"))
    plan = plan_of(captured(product, rl.ones(1000, 32), w, dynamic=False))
    assert stored(plan) == [(32, 4)]


def test_what_takes_divisions_by_sizes_to_find_is_stored(captured: Callable[..., Graph]) -> None:
    def product(x: Any, w: Any, scales: Any) -> Any:
        numbers = unpack_pairs(w).reshape(scales.shape[0], -1, scales.shape[1])
        return x @ (numbers.to(x.dtype) * scales[:, None]).reshape(-1, scales.shape[1])

    arguments = rl.ones(16, 258), rl.tensor(pack(np.ones((258, 70), int), "pairs")), rl.ones(43, 70)
    assert not stored(plan_of(captured(product, *arguments, dynamic=False)))
    assert stored(plan_of(captured(product, *arguments, dynamic=True)))


@pytest.mark.parametrize("products", [1, 2])
def test_what_several_products_would_gather_is_stored(products: int, captured: Callable[..., Graph]) -> None:
    table, w = rl.ones(1000, 48), rl.ones(48, 70)

    def run(ids: Any, scale: Any) -> Any:
        x = rl.nn.functional.embedding(ids, table) * scale
        return [x @ (w + number) for number in range(products)]

    plan = plan_of(captured(run, rl.zeros(300, dtype=rl.int64), rl.ones(48)))
    assert ((plan.outputs[0].type.shape[0], 48) in stored(plan)) == (products > 1)


def test_what_a_few_bits_look_up_is_not_stored(captured: Callable[..., Graph]) -> None:
    values = rl.ones(256)

    def product(x: Any, w: Any) -> Any:
        return x @ values[w.int()]

    assert not stored(plan_of(captured(product, rl.ones(16, 64), rl.zeros(64, 70, dtype=rl.uint8))))
