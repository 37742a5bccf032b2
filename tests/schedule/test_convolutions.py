"""Convolutions as products whose pixels are made panel by panel: the bits of the order, and no copy of the pixels."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from tests.schedule.product_order import assert_same_bits, numpy_dtype, product_of_order

import rushlight as rl
from rushlight.build.pipeline import run_passes
from rushlight.compiler import shape_report
from rushlight.ir.gemm_tile import GemmTile, choose_tile, plan_tiles
from rushlight.ir.graph import Graph
from rushlight.ir.graph_parse import parse_graph
from rushlight.ir.kernel import GemmKernel
from rushlight.ir.kernel_text import kernel_text
from rushlight.ir.plan import Plan
from rushlight.ir.target import Target
from rushlight.nn import functional as F
from rushlight.ops.record import OPERATORS
from rushlight.runtime import llvm

Array = np.ndarray[Any, Any]
TARGET = Target("x86_64-unknown-linux-gnu", "x86-64-v4", "", 64)


@dataclass(frozen=True)
class Case:
    """One convolution: sizes as in `conv2d`."""

    input: tuple[int, int, int, int]
    weight: tuple[int, int, int, int]
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1

    @property
    def out(self) -> tuple[int, int]:
        """The sizes of the result's images."""
        rules = zip(self.input[2:], self.weight[2:], self.stride, self.padding, self.dilation, strict=True)
        first, second = [(size + 2 * pad - gap * (width - 1) - 1) // step + 1 for size, width, step, pad, gap in rules]
        return first, second


CASES = {
    "3x3": Case((1, 9, 13, 11), (20, 9, 3, 3), padding=(1, 1)),
    "images": Case((3, 7, 9, 10), (13, 7, 3, 3), padding=(1, 1)),
    "strides": Case((2, 5, 14, 13), (9, 5, 3, 2), stride=(2, 3), padding=(1, 0)),
    "dilated": Case((1, 6, 12, 17), (8, 6, 3, 3), padding=(2, 3), dilation=(2, 3)),
    "stem": Case((1, 3, 31, 30), (16, 3, 7, 7), stride=(2, 2), padding=(3, 3)),
    "pointwise": Case((2, 40, 6, 7), (12, 40, 1, 1)),
    "pointwise strides": Case((1, 33, 15, 9), (12, 33, 1, 1), stride=(2, 4)),
    "few rows": Case((1, 8, 16, 16), (2, 8, 5, 5), padding=(2, 2)),
    "all of the image": Case((20, 6, 4, 5), (24, 6, 4, 5)),
    "far padding": Case((1, 5, 3, 4), (8, 5, 3, 3), padding=(4, 6)),
    "many steps": Case((1, 75, 5, 6), (14, 75, 3, 3), padding=(1, 1)),
    "many steps of wide windows": Case((1, 39, 6, 9), (13, 39, 2, 7), stride=(1, 2), padding=(0, 3)),
}
GROUPED = {
    "two groups": Case((2, 14, 11, 13), (18, 7, 3, 3), padding=(1, 1), groups=2),
    "four groups": Case((1, 20, 15, 14), (24, 5, 3, 2), stride=(2, 1), padding=(1, 2), groups=4),
    "pointwise groups": Case((2, 12, 16, 17), (16, 6, 1, 1), groups=2),
    "many steps in groups": Case((1, 70, 5, 6), (12, 35, 3, 3), padding=(1, 1), groups=2),
    "each channel": Case((2, 6, 19, 37), (6, 1, 3, 3), padding=(1, 1), groups=6),
    "each channel, strides": Case((1, 5, 18, 70), (5, 1, 3, 3), stride=(2, 2), padding=(1, 1), groups=5),
    "each channel, dilated": Case(
        (2, 3, 14, 40), (3, 1, 5, 3), stride=(1, 3), padding=(3, 2), dilation=(2, 2), groups=3
    ),
    "each channel, far padding": Case((1, 4, 2, 3), (4, 1, 3, 3), padding=(4, 5), groups=4),
    "each channel, large kernel": Case((1, 3, 12, 20), (3, 1, 9, 9), padding=(4, 4), groups=3),
    "two of each channel": Case((2, 5, 9, 35), (10, 1, 3, 3), padding=(1, 1), groups=5),
    "six of each channel": Case((1, 3, 16, 16), (18, 1, 3, 3), padding=(1, 1), groups=3),
}
EMPTY = {
    "no image": Case((0, 4, 6, 6), (8, 4, 3, 3), padding=(1, 1)),
    "no channel": Case((2, 0, 6, 6), (8, 0, 3, 3), padding=(1, 1)),
    "no result": Case((2, 4, 6, 6), (0, 4, 3, 3), padding=(1, 1)),
    "one pixel": Case((1, 4, 1, 1), (8, 4, 3, 3), padding=(1, 1)),
    "no image for groups": Case((0, 4, 6, 6), (8, 2, 3, 3), padding=(1, 1), groups=2),
    "no image for each channel": Case((0, 4, 6, 6), (4, 1, 3, 3), padding=(1, 1), groups=4),
}


def operands(case: Case, dtype: str) -> tuple[Array, Array, Array]:
    """An input, a weight, and a gradient of the result."""
    random = np.random.default_rng(11)
    shapes = (case.input, case.weight, (case.input[0], case.weight[0], *case.out))
    x, weight, gradient = (random.standard_normal(shape).astype(numpy_dtype(dtype)) for shape in shapes)
    return x, weight, gradient


def windows(case: Case) -> Iterator[tuple[tuple[int, int], tuple[slice, slice]]]:
    """Each place in the weight, and which pixels of the padded input it meets."""
    for place in np.ndindex(*case.weight[2:]):
        starts = [index * gap for index, gap in zip(place, case.dilation, strict=True)]
        ends = [start + step * (size - 1) + 1 for start, step, size in zip(starts, case.stride, case.out, strict=True)]
        rows, columns = (slice(start, end, step) for start, end, step in zip(starts, ends, case.stride, strict=True))
        yield (place[0], place[1]), (rows, columns)


def margins(case: Case) -> tuple[tuple[int, int], ...]:
    """How much an input is padded by."""
    return ((0, 0), (0, 0), *[(pad, pad) for pad in case.padding])


def pixels(case: Case, x: Array) -> Array:
    """What each place in the weight meets: channels, places, images, pixels of the result."""
    padded = np.pad(x, margins(case))
    found = np.zeros((x.shape[1], *case.weight[2:], x.shape[0], *case.out), x.dtype)
    for place, (rows, columns) in windows(case):
        found[:, place[0], place[1]] = padded[:, :, rows, columns].transpose(1, 0, 2, 3)
    return found


def shadows(case: Case, gradient: Array) -> Array:
    """What of a gradient meets each pixel of the input: its channels, places in the weight, images, pixels."""
    n, _, height, width = case.input
    (top, _), (left, _) = margins(case)[2:]
    padded = np.zeros((case.weight[0], *case.weight[2:], n, height + 2 * top, width + 2 * left), gradient.dtype)
    for place, (rows, columns) in windows(case):
        padded[:, place[0], place[1], :, rows, columns] = gradient.transpose(1, 0, 2, 3)
    return padded[..., top : top + height, left : left + width]


def flat(array: Array, leading: int) -> Array:
    """A matrix whose rows are the first axes."""
    return array.reshape(int(np.prod(array.shape[:leading])), int(np.prod(array.shape[leading:])))


def wanted(case: Case, x: Array, weight: Array, gradient: Array) -> tuple[Array, Array, Array]:
    """The result and both gradients, as products in the order that is defined, one for each group."""
    n, channels, height, width = case.input
    out, deep, *kernel = case.weight
    shapes = (n, channels // case.groups, height, width), (out // case.groups, deep, kernel[0], kernel[1])
    part = replace(case, input=shapes[0], weight=shapes[1], groups=1)
    parts = zip(
        *[np.split(array, case.groups, axis) for array, axis in ((x, 1), (weight, 0), (gradient, 1))], strict=True
    )
    found = zip(*[wanted_of_group(part, *arrays) for arrays in parts], strict=True)
    result, to_input, to_weight = (np.concatenate(item, axis) for item, axis in zip(found, (1, 1, 0), strict=True))
    return result, to_input, to_weight


def wanted_of_group(case: Case, x: Array, weight: Array, gradient: Array) -> tuple[Array, Array, Array]:
    """The result and both gradients of one group."""
    deep = x.shape[1]
    met = pixels(case, x)
    result = product(flat(weight, 1), flat(met, 3)).reshape(case.weight[0], x.shape[0], *case.out)
    transposed = flat(np.ascontiguousarray(weight.transpose(1, 0, 2, 3)), 1)
    to_input = product(transposed, flat(shadows(case, gradient), 3)).reshape(deep, x.shape[0], *x.shape[2:])
    rows = flat(np.ascontiguousarray(gradient.transpose(1, 0, 2, 3)), 1)
    return (
        result.transpose(1, 0, 2, 3),
        to_input.transpose(1, 0, 2, 3),
        product(rows, np.ascontiguousarray(flat(met, 3).T)).reshape(weight.shape),
    )


def product(a: Array, b: Array) -> Array:
    """A product of elements that are widened first, in the order that is defined."""
    if a.dtype.itemsize >= 4:
        return product_of_order(a, b)
    return product_of_order(a.astype(np.float32), b.astype(np.float32)).astype(a.dtype)


def outcomes(case: Case, mode: str, arrays: tuple[Array, Array, Array]) -> tuple[Any, Any, Any]:
    """The result and both gradients."""
    x, weight = (rl.tensor(array, requires_grad=True) for array in arrays[:2])

    def convolve(x: Any, weight: Any) -> Any:
        return F.conv2d(x, weight, None, case.stride, case.padding, case.dilation, case.groups)

    function = convolve if mode == "eager" else rl.compile(convolve, dynamic=None if mode == "compiled" else False)
    result = function(x, weight)
    result.backward(rl.tensor(arrays[2]))
    return result.detach(), x.grad, weight.grad


def ways() -> Iterator[Any]:
    """Each case in float32, and by turns in one of the other dtypes."""
    for name, other in zip([*CASES, *GROUPED], itertools.cycle(("float64", "bfloat16")), strict=False):
        for dtype, mode in itertools.product(("float32", other), ("eager", "compiled", "static")):
            if dtype == "float32" or mode != "static":
                yield pytest.param({**CASES, **GROUPED}[name], dtype, mode, id=f"{name}-{dtype}-{mode}")


@pytest.mark.generated("dtype", "mode")
@pytest.mark.parametrize(("case", "dtype", "mode"), [*ways()])
def test_convolutions_have_the_bits_of_the_order(case: Case, dtype: str, mode: str, threads: int) -> None:
    arrays = operands(case, dtype)
    for got, expected in zip(outcomes(case, mode, arrays), wanted(case, *arrays), strict=True):
        assert_same_bits(got, expected)


@pytest.mark.generated("dynamic")
@pytest.mark.parametrize("dynamic", [True, False])
@pytest.mark.parametrize("case", [*CASES.values(), *GROUPED.values()], ids=[*CASES, *GROUPED])
def test_convolutions_with_constant_weights_have_the_bits_of_the_order(case: Case, dynamic: bool, threads: int) -> None:
    arrays = operands(case, "float32")
    right = rl.tensor(arrays[1])
    rule = case.stride, case.padding, case.dilation, case.groups
    convolve = rl.compile(lambda x: F.conv2d(x, right, None, *rule), dynamic=dynamic, freeze=True)
    assert_same_bits(convolve(rl.tensor(arrays[0])), wanted(case, *arrays)[0])


@pytest.mark.parametrize("mode", ["eager", "compiled", "static"])
@pytest.mark.parametrize("case", list(EMPTY.values()), ids=list(EMPTY))
def test_convolutions_of_nothing_are_zero(case: Case, mode: str) -> None:
    arrays = operands(case, "float32")
    for got, expected in zip(outcomes(case, mode, arrays), wanted(case, *arrays), strict=True):
        assert_same_bits(got, expected)


@pytest.mark.parametrize("freeze", [False, True], ids=["weights read", "weights packed once"])
def test_one_compiled_convolution_serves_all_sizes_of_images(freeze: bool) -> None:
    random = np.random.default_rng(12)
    weight = random.standard_normal((10, 6, 3, 3)).astype(np.float32)
    right = rl.tensor(weight)
    convolve = rl.compile(lambda x: F.relu(F.conv2d(x, right, None, 2, 1)), dynamic=True, freeze=freeze)
    for n, height, width in ((1, 7, 40), (4, 8, 9), (2, 33, 3), (1, 1, 1), (5, 16, 16)):
        case = Case((n, 6, height, width), (10, 6, 3, 3), stride=(2, 2), padding=(1, 1))
        x, _, gradient = operands(case, "float32")
        assert_same_bits(convolve(rl.tensor(x)), np.maximum(wanted(case, x, weight, gradient)[0], 0))


@pytest.mark.parametrize(("channels", "out", "groups"), [(6, 10, 2), (5, 5, 5), (4, 8, 4)])
def test_one_compiled_convolution_in_groups_serves_all_sizes_of_images(channels: int, out: int, groups: int) -> None:
    random = np.random.default_rng(16)
    weight = random.standard_normal((out, channels // groups, 3, 3)).astype(np.float32)
    right = rl.tensor(weight)
    convolve = rl.compile(lambda x: F.relu(F.conv2d(x, right, None, 2, 1, 1, groups)), dynamic=True)
    for n, height, width in ((1, 7, 40), (4, 8, 9), (2, 33, 3), (1, 1, 1), (0, 5, 5), (5, 16, 16)):
        case = Case((n, channels, height, width), weight.shape, stride=(2, 2), padding=(1, 1), groups=groups)
        x, _, gradient = operands(case, "float32")
        assert_same_bits(convolve(rl.tensor(x)), np.maximum(wanted(case, x, weight, gradient)[0], 0))


@pytest.mark.parametrize("mode", ["eager", "compiled"])
def test_weights_of_other_sizes_have_code_of_their_own(mode: str) -> None:
    for out in (2, 6, 2, 4):
        case = Case((2, 6, 7, 9), (out, 3, 3, 3), padding=(1, 1), groups=2)
        arrays = operands(case, "float32")
        for got, expected in zip(outcomes(case, mode, arrays), wanted(case, *arrays), strict=True):
            assert_same_bits(got, expected)


@pytest.mark.parametrize("out", [1, 3], ids=["each channel", "three of each channel"])
@pytest.mark.parametrize("groups", [2, 6])
@pytest.mark.parametrize("space", [(37,), (7, 6, 11)], ids=["1d", "3d"])
def test_groups_of_any_number_of_dims(space: tuple[int, ...], groups: int, out: int) -> None:
    random = np.random.default_rng(17)
    dims = len(space)
    shapes = (2, 6, *space), (groups * out, 6 // groups, *(3,) * dims), (groups * out,)
    arrays = [random.standard_normal(shape).astype(np.float32) for shape in shapes]
    named = {1: F.conv1d, 3: F.conv3d}[dims]
    rule = 2, 2, 2, groups  # stride, padding, dilation

    def gradients(convolve: Any) -> list[Any]:
        tensors = [rl.tensor(array, requires_grad=True) for array in arrays]
        result = convolve(*tensors)
        (result * result).sum().backward()
        return [result.detach(), *[item.grad for item in tensors]]

    eager = gradients(lambda x, w, b: named(x, w, b, *rule))
    for dynamic in (None, False):
        compiled = gradients(rl.compile(lambda x, w, b: named(x, w, b, *rule), dynamic=dynamic))
        for got, expected in zip(compiled[:2], eager[:2], strict=True):
            assert_same_bits(got, expected.numpy())
    reference = OPERATORS[f"conv{dims}d"].ref_rule(*[array.astype(np.float64) for array in arrays], *rule)
    np.testing.assert_allclose(eager[0].numpy(), reference, rtol=1e-4, atol=1e-4)
    wide = [array.astype(np.float64) for array in arrays]
    rules = OPERATORS["convolution_input"], OPERATORS["convolution_weight"]
    filled = [(number,) * dims for number in rule[:3]]
    to_input = rules[0].ref_rule(2 * reference, wide[1], space, *filled, groups)
    to_weight = rules[1].ref_rule(2 * reference, wide[0], wide[1].shape[2:], *filled, groups)
    np.testing.assert_allclose(eager[1].numpy(), to_input, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(eager[2].numpy(), to_weight, rtol=1e-3, atol=1e-3)


def test_convolutions_in_groups_are_products_and_those_of_channels_are_not() -> None:
    text = """step(%in0: f32[s0, 32, s1, s1], %in1: f32[OUT, DEEP, 3, 3]) {
  size s0 = 4
  size s1 = 64
  %0 = convolution(%in0, %in1, none) {stride=[1, 1], padding=[1, 1], dilation=[1, 1], groups=GROUPS} : \
f32[s0, OUT, s1, s1]
  %1 = relu(%0) : f32[s0, OUT, s1, s1]
  return %1
}
"""
    for out, groups, products in ((32, 4, 1), (64, 2, 1), (32, 32, 0)):
        parts = {"OUT": out, "DEEP": 32 // groups, "GROUPS": groups}
        written = text
        for name, number in parts.items():
            written = written.replace(name, str(number))
        plan = plan_of(written)
        assert plan.slots == ()
        assert len(plan.kernels) == 1
        assert sum(isinstance(kernel, GemmKernel) for kernel in plan.kernels) == products


def test_steps_of_a_convolution_of_each_channel_are_counted_when_it_is_compiled() -> None:
    compiled = rl.compile(lambda x, w: F.conv2d(x, w, None, 1, 1, 1, 4))
    compiled(rl.ones(2, 4, 9, 8), rl.ones(4, 1, 3, 3))
    (graph,) = shape_report(compiled).functions[0].graphs
    assert {"a1_1 == 1", "a1_2 == 3", "a1_3 == 3"} <= {guard.condition for guard in graph.guards}


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_operands_of_products_are_made_whatever_they_are(dtype: str) -> None:
    random = np.random.default_rng(13)
    a, b = (random.standard_normal(shape).astype(numpy_dtype(dtype)) for shape in ((30, 300), (300, 70)))
    rows = random.integers(0, 300, 280)
    cases = {
        "halves": (lambda x, y: x @ (y * 0.5), b * b.dtype.type(0.5)),
        "turned halves": (lambda x, y: x[:, :70] @ (y.mT * 0.5), b.T * b.dtype.type(0.5)),
        "flipped": (lambda x, y: x @ y.flip(1), b[:, ::-1]),
        "every third": (lambda x, y: x[:, :100] @ y[::3], b[::3]),
        "rows": (lambda x, y: x[:, :280] @ y[rl.tensor(rows)], b[rows]),
        "rolled": (lambda x, y: x @ y.roll(3, 0), np.roll(b, 3, 0)),
    }
    for name, (function, right) in cases.items():
        expected = product_of_order(a[:, : len(right)], np.ascontiguousarray(right))
        for run in (function, rl.compile(function), rl.compile(function, dynamic=False)):
            assert run(rl.tensor(a), rl.tensor(b)).numpy().tobytes() == expected.tobytes(), name


def test_operands_of_int8_products_are_made() -> None:
    random = np.random.default_rng(14)
    a, b = (random.integers(-128, 128, shape).astype(np.int8) for shape in ((30, 301), (301, 70)))
    wanted = a.astype(np.int32) @ b[:, ::-1].astype(np.int32)
    found = rl.compile(lambda x, y: rl._int_mm(x, y.flip(1)))(rl.tensor(a), rl.tensor(b))
    assert np.array_equal(found.numpy(), wanted)
    transposed = rl.compile(lambda x, y: rl._int_mm(x[:, :70], y.mT.flip(1)))(rl.tensor(a), rl.tensor(b))
    assert np.array_equal(transposed.numpy(), a[:, :70].astype(np.int32) @ b.T[:, ::-1].astype(np.int32))


def test_what_many_rows_meet_is_packed_once() -> None:
    text = """step(%in0: f32[ROWS, 32], %in1: f32[32, 40]) {
  %0 = neg(%in1) : f32[32, 40]
  %1 = matmul(%in0, %0) : f32[ROWS, 40]
  return %1
}
"""
    few, many = (plan_of(text.replace("ROWS", rows)) for rows in ("1500", "1600"))
    assert [tile.b_made for tile in (*few.tiles, *many.tiles)] == [True, False]
    assert (len(few.launches), len(many.launches)) == (1, 2)
    random = np.random.default_rng(15)
    a, b = (random.standard_normal(shape).astype(np.float32) for shape in ((1600, 32), (32, 40)))
    found = rl.compile(lambda x, y: x @ -y, dynamic=False)(rl.tensor(a), rl.tensor(b))
    assert_same_bits(found, product_of_order(a, -b))


CONVOLUTION = """step(%in0: f32[1, 64, 56, 56], %in1: f32[64, 64, 3, 3], %in2: f32[1, 64, 56, 56]) {
  %0 = convolution(%in0, %in1, none) {stride=[1, 1], padding=[1, 1], dilation=[1, 1], groups=1} : f32[1, 64, 56, 56]
  %1 = convolution_weight(%in2, %in0) {kernel=[3, 3], stride=[1, 1], padding=[1, 1], dilation=[1, 1], groups=1} : \
f32[64, 64, 3, 3]
  return %0, %1
}
"""


def plan_of(text: str) -> Plan:
    return run_passes(parse_graph(text, OPERATORS), TARGET, until="07-tiled.ir")


def test_pixels_are_never_in_memory_together() -> None:
    plan = plan_of(CONVOLUTION)
    assert plan.slots == ()
    kernels = [kernel for kernel in plan.kernels if isinstance(kernel, GemmKernel)]
    assert [kernel.tile.b_format for kernel in kernels] == ["row", "column"]
    assert len(kernels) == len(plan.kernels)


def test_threads_share_columns_before_rows_where_panels_are_made() -> None:
    def tiles(tile: GemmTile) -> tuple[int, int]:
        return plan_tiles(tile, 384, 256, 512, 1, 4)[:2]

    made = choose_tile("float32", 64, a_packed=False, b_packed=False, b_made=True)
    plain = choose_tile("float32", 64, a_packed=False, b_packed=False)
    assert tiles(made) == (384, 64)
    assert tiles(plain)[0] < 384


@pytest.mark.parametrize("then", ["window", "product"])
def test_what_is_made_of_a_product_is_stored_in_its_place(captured: Callable[..., Graph], then: str) -> None:
    """A window that overlaps, or another convolution, would compute it for each of its places."""
    x, w = rl.zeros(1, 16, 30, 30), rl.zeros(16, 16, 3, 3)

    def program(x: rl.Tensor) -> rl.Tensor:
        h = F.relu(F.conv2d(x, w, padding=1))
        return F.max_pool2d(h, 3, 2) if then == "window" else F.conv2d(h, w)

    first, second = run_passes(captured(program, x), TARGET, until="07-tiled.ir").kernels
    assert isinstance(first, GemmKernel)
    assert first.epilogue is not None
    assert "select(" in kernel_text(first.epilogue)
    assert "select(" not in kernel_text(second)


def test_panels_ask_memory_for_the_next_one(captured: Callable[..., Graph]) -> None:
    x, w = rl.zeros(1, 16, 30, 30), rl.zeros(16, 16, 3, 3)
    graph = captured(lambda x: F.conv2d(x, w, padding=1), x)
    for level in ("x86-64-v3", "x86-64-v4"):
        text = run_passes(graph, llvm.target_named(level)).text
        panel = text[text.index("@prologue_rows") :]
        assert "@llvm.prefetch" in panel[: panel.index("\n}")]
