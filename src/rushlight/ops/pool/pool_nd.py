"""PyTorch's names for pooling: max_pool, avg_pool and adaptive_avg_pool over one to three spatial dims."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from rushlight.ir.dtype import DType, compute_dtype
from rushlight.ir.loops import Operand
from rushlight.ir.scalar import BLOCKED, Scalar, cast, index, lift, reduce
from rushlight.ir.type import TensorType
from rushlight.ir.value import Value
from rushlight.ops.conv.convolution import Ints, per_dim
from rushlight.ops.dims import Array, At, Shape, compute_array, guarded, normal, require_floating, zero
from rushlight.ops.index.read import gather
from rushlight.ops.pool.window import (
    avg_pool,
    avg_pool_ref,
    max_pool,
    max_pool_indices,
    max_pool_indices_ref,
    max_pool_ref,
)
from rushlight.ops.record import Fact, Operator, Sample, define
from rushlight.ops.view.reshape import reshape
from rushlight.support.errors import require
from rushlight.sym import Size, SizeExpr, axis_symbol, ceildiv, maximum, minimum, mod, product


def _windows(dims: int, kernel_size: Ints, stride: Ints | None, padding: Ints, op: str) -> tuple[Ints, Ints, Ints]:
    """Kernel, stride (the kernel where it is not given) and padding for each dim."""
    kernel = per_dim(kernel_size, dims, "kernel_size", op)
    steps = kernel if stride in (None, ()) else per_dim(stride, dims, "stride", op)
    return kernel, steps, per_dim(padding, dims, "padding", op)


def _max_windows(
    dims: int, kernel_size: Ints, stride: Ints | None, padding: Ints, dilation: Ints, ceil_mode: bool, op: str
) -> tuple[Ints, Ints, Ints, Ints, bool]:
    """The windows of a largest element: as `_windows`, then the dilation of each dim and the ceil mode."""
    windows = _windows(dims, kernel_size, stride, padding, op)
    return (*windows, per_dim(dilation, dims, "dilation", op), ceil_mode)


def _max(dims: int) -> Operator:
    name = f"max_pool{dims}d"
    op = define(
        f"{name}(Tensor input, int[] kernel_size, int[]? stride=None, int[] padding=0, int[] dilation=1, "
        "bool ceil_mode=False) -> Tensor",
        f"The largest element of each window over the last {dims} dims.",
        dtypes="ordered",
        autocast="float32" if dims == 3 else None,
        variants="function",
    )

    @op.decompose
    def max_decompose(
        input: Value, kernel_size: Ints, stride: Ints | None, padding: Ints, dilation: Ints, ceil_mode: bool
    ) -> Value:
        return max_pool(input, *_max_windows(dims, kernel_size, stride, padding, dilation, ceil_mode, name))

    @op.ref
    def max_ref(
        input: Array, kernel_size: Ints, stride: Ints | None, padding: Ints, dilation: Ints, ceil_mode: bool
    ) -> Array:
        return max_pool_ref(input, *_max_windows(dims, kernel_size, stride, padding, dilation, ceil_mode, name))

    @op.samples
    def max_samples(rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample(normal(rng, 2, 3, *(6, 5, 4)[:dims]), 2)
        yield Sample(normal(rng, 2, *(6, 5, 7)[:dims]), 3, 2, 1, ceil_mode=True)

    return op


max_pool1d = _max(1)
max_pool2d = _max(2)
max_pool3d = _max(3)


def _max_with_indices(dims: int) -> Operator:
    name = f"max_pool{dims}d_with_indices"
    op = define(
        f"{name}(Tensor input, int[] kernel_size, int[]? stride=None, int[] padding=0, int[] dilation=1, "
        "bool ceil_mode=False) -> (Tensor out, Tensor indices)",
        f"max_pool{dims}d and the flat place in space of each largest element.",
        dtypes="ordered",
        autocast="float32" if dims == 3 else None,
        variants="function",
    )

    @op.decompose
    def indices_decompose(
        input: Value, kernel_size: Ints, stride: Ints | None, padding: Ints, dilation: Ints, ceil_mode: bool
    ) -> tuple[Any, Any]:
        rule = _max_windows(dims, kernel_size, stride, padding, dilation, ceil_mode, name)
        places = max_pool_indices(input, *rule)
        lead = input.shape[: input.ndim - dims]
        flat = reshape(input, (*lead, product(input.shape[input.ndim - dims :])))
        values = gather(flat, -1, reshape(places, (*lead, product(places.shape[len(lead) :]))))
        return reshape(values, places.shape), places

    @op.ref
    def indices_ref(
        input: Array, kernel_size: Ints, stride: Ints | None, padding: Ints, dilation: Ints, ceil_mode: bool
    ) -> tuple[Array, Array]:
        rule = _max_windows(dims, kernel_size, stride, padding, dilation, ceil_mode, name)
        return max_pool_ref(input, *rule), max_pool_indices_ref(input, *rule)

    @op.samples
    def indices_samples(rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample(normal(rng, 2, 3, *(6, 5, 4)[:dims]), 2)

    return op


max_pool1d_with_indices = _max_with_indices(1)
max_pool2d_with_indices = _max_with_indices(2)
max_pool3d_with_indices = _max_with_indices(3)


def _avg(dims: int) -> Operator:
    name = f"avg_pool{dims}d"
    op = define(
        f"{name}(Tensor input, int[] kernel_size, int[]? stride=None, int[] padding=0, bool ceil_mode=False, "
        "bool count_include_pad=True, int? divisor_override=None) -> Tensor",
        f"The mean of each window over the last {dims} dims, which integers round towards zero.",
        dtypes="ordered",
        autocast="float32" if dims == 3 else None,
        variants="function" if dims == 1 else "function out",
    )

    @op.decompose
    def avg_decompose(
        input: Value,
        kernel_size: Ints,
        stride: Ints | None,
        padding: Ints,
        ceil_mode: bool,
        count_include_pad: bool,
        divisor_override: int | None,
    ) -> Value:
        rule = _windows(dims, kernel_size, stride, padding, name)
        return avg_pool(input, *rule, ceil_mode, count_include_pad, divisor_override)

    @op.ref
    def avg_ref(
        input: Array,
        kernel_size: Ints,
        stride: Ints | None,
        padding: Ints,
        ceil_mode: bool,
        count_include_pad: bool,
        divisor_override: int | None,
    ) -> Array:
        rule = _windows(dims, kernel_size, stride, padding, name)
        return avg_pool_ref(input, *rule, ceil_mode, count_include_pad, divisor_override)

    @op.samples
    def avg_samples(rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample(normal(rng, 2, 3, *(6, 5, 4)[:dims]), 2)
        yield Sample(normal(rng, 2, *(6, 5, 7)[:dims]), 3, 2, 1, count_include_pad=False)

    return op


avg_pool1d = _avg(1)
avg_pool2d = _avg(2)
avg_pool3d = _avg(3)


adaptive_avg_pool = define(
    "adaptive_avg_pool(Tensor input, Size[] output_size) -> Tensor",
    "Means over windows that cover the last dims in as many steps as asked for.",
    facts=Fact.REDUCTION,
    dtypes="float",
    variants="",
)


def window_range(number: Size, size: Size, count: Size) -> tuple[Size, Size]:
    """Return the start and end of the input range that window `number` of `count` covers.

    With the sizes exchanged, it is the range of the windows that cover input element `number`.
    """
    count = _divisor(count)
    return (number * size) // count, ceildiv((number + 1) * size, count)


def _divisor(size: Size) -> Size:
    """A size to divide by: 1 for a known 0, which has no windows."""
    return max(size, 1) if isinstance(size, int) else size


def widest(size: Size, count: Size) -> Size:
    """The most elements that one of `count` windows has: a size, for loops over any of them.

    A window is `size / count` long. Of a remainder it may hold a further place, and one more where it crosses an edge
    in its middle, which none does if remainders fill places evenly.
    """
    count = _divisor(count)
    rest = mod(size, count)
    return size // count + minimum(rest, 1) + minimum(mod(count, maximum(rest, 1)), 1)


def _elements(at: Sequence[Size], sizes: Shape, counts: Shape, dtype: DType) -> Scalar:
    """How many elements windows have: a product of numbers, of which each stays in the loop of its own dim."""
    count = lift(1, dtype)
    for start, end in map(window_range, at, sizes, counts):
        count = count * lift(end - start, dtype)
    return count


def covered(at: Sequence[Size], sizes: Shape, counts: Shape) -> tuple[tuple[SizeExpr, ...], list[Size], list[Scalar]]:
    """The axes over windows `at` places, where they are in the input, and whether they end before."""
    axes: list[SizeExpr] = []
    places: list[Size] = []
    conditions: list[Scalar] = []
    for dim, (position, size, count) in enumerate(zip(at, sizes, counts, strict=True)):
        start, end = window_range(position, size, count)
        axes.append(axis_symbol(widest(size, count), f"k{dim}"))
        places.append(start + axes[-1])
        conditions.append(index(places[-1]) < index(end))
    return tuple(axes), places, conditions


def adaptive_space(input: Shape, output_size: Shape) -> tuple[Shape, Shape]:
    """Return the dims before space and those of space; S002 where there are no dims before it."""
    lead = len(input) - len(output_size)
    fits = 0 <= lead < len(input)
    require(fits, "S002", "adaptive_avg_pool: as many sizes as dims, or fewer", input=input, output_size=output_size)
    return input[:lead], input[lead:]


@adaptive_avg_pool.meta
def adaptive_avg_pool_meta(input: TensorType, output_size: Shape) -> TensorType:
    require_floating(input, "adaptive_avg_pool")
    lead, _ = adaptive_space(input.shape, output_size)
    return TensorType((*lead, *output_size), input.dtype, input.device)


@adaptive_avg_pool.ref
def adaptive_avg_pool_ref(input: Array, output_size: Ints) -> Array:
    x = compute_array(input)
    lead = x.ndim - len(output_size)
    means = np.zeros((*x.shape[:lead], *output_size), x.dtype)
    for output in np.ndindex(*output_size):
        window: list[slice] = [
            slice(*window_range(*bounds)) for bounds in zip(output, x.shape[lead:], output_size, strict=True)
        ]
        means[(..., *output)] = np.mean(x[(..., *window)], tuple(range(lead, x.ndim)))
    return means.astype(input.dtype)


@adaptive_avg_pool.lower
def adaptive_avg_pool_lower(at: At, input: Operand, output_size: Shape) -> Scalar:
    lead, space = adaptive_space(input.shape, output_size)
    axes, places, conditions = covered(at[len(lead) :], space, output_size)
    wide = compute_dtype(input.dtype)
    element = guarded(conditions, cast(input[(*at[: len(lead)], *places)], wide), zero(wide))
    count = _elements(at[len(lead) :], space, output_size, wide)
    return cast(reduce("sum", axes, element, BLOCKED) / count, input.dtype)


@adaptive_avg_pool.vjp(types=("input",))
def adaptive_avg_pool_vjp(g: Value, input: TensorType, output_size: Shape) -> Value:
    return adaptive_avg_pool_backward(g, input.shape[len(input.shape) - len(output_size) :])


@adaptive_avg_pool.samples
def adaptive_avg_pool_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 3, 6, 4), (3, 2))
    yield Sample(normal(rng, 2, 7, 5), (3, 4))
    yield Sample(normal(rng, 2, 5), (1,))
    yield Sample(normal(rng, 2, 3), (5,))


adaptive_avg_pool_backward = define(
    "adaptive_avg_pool_backward(Tensor grad, Size[] input_space) -> Tensor",
    "The adjoint of adaptive_avg_pool.",
    facts=Fact.REDUCTION,
    dtypes="float",
    variants="",
)


@adaptive_avg_pool_backward.meta
def adaptive_avg_pool_backward_meta(grad: TensorType, input_space: Shape) -> TensorType:
    lead, _ = adaptive_space(grad.shape, input_space)
    return TensorType((*lead, *input_space), grad.dtype, grad.device)


@adaptive_avg_pool_backward.ref
def adaptive_avg_pool_backward_ref(grad: Array, input_space: Ints) -> Array:
    g = compute_array(grad)
    lead = g.ndim - len(input_space)
    gradient = np.zeros((*g.shape[:lead], *input_space), g.dtype)
    for output in np.ndindex(*g.shape[lead:]):
        window: list[slice] = [
            slice(*window_range(*bounds)) for bounds in zip(output, input_space, g.shape[lead:], strict=True)
        ]
        count = np.prod([part.stop - part.start for part in window])
        gradient[(..., *window)] += (g[(..., *output)] / g.dtype.type(count)).reshape(
            *g.shape[:lead], *(1,) * len(output)
        )
    return gradient.astype(grad.dtype)


@adaptive_avg_pool_backward.lower
def adaptive_avg_pool_backward_lower(at: At, grad: Operand, input_space: Shape) -> Scalar:
    lead, out = adaptive_space(grad.shape, input_space)
    # The windows that cover a place lie as a window of the places does, with the sizes changed about.
    axes, windows, conditions = covered(at[len(lead) :], out, input_space)
    wide = compute_dtype(grad.dtype)
    share = cast(grad[(*at[: len(lead)], *windows)], wide) / _elements(windows, input_space, out, wide)
    return cast(reduce("sum", axes, guarded(conditions, share, zero(wide)), BLOCKED), grad.dtype)


@adaptive_avg_pool_backward.vjp(types=("grad",))
def adaptive_avg_pool_backward_vjp(g: Value, grad: TensorType, input_space: Shape) -> Value:
    return adaptive_avg_pool(g, grad.shape[len(grad.shape) - len(input_space) :])


@adaptive_avg_pool_backward.samples
def adaptive_avg_pool_backward_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 3, 4), (7, 5))


def _adaptive(dims: int) -> Operator:
    name = f"adaptive_avg_pool{dims}d"
    op = define(
        f"{name}(Tensor input, Size[] output_size) -> Tensor",
        f"adaptive_avg_pool over the last {dims} dims; None keeps a size.",
        dtypes="float",
        autocast="float32" if dims == 3 else None,
        variants="function",
    )

    @op.decompose
    def adaptive_decompose(input: Value, output_size: tuple[Size | None, ...]) -> Value:
        return adaptive_avg_pool(input, output_size_of(input.shape, output_size, dims, name))

    @op.ref
    def adaptive_ref(input: Array, output_size: tuple[Size | None, ...]) -> Array:
        sizes: Any = output_size_of(input.shape, output_size, dims, name)
        return adaptive_avg_pool_ref(input, sizes)

    @op.samples
    def adaptive_samples(rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample(normal(rng, 2, 3, *(6, 5, 4)[:dims]), 2)
        yield Sample(normal(rng, 3, *(6, 5, 4)[:dims]), (None, 3, 1)[:dims])

    return op


def output_size_of(shape: Shape, output_size: tuple[Size | None, ...], dims: int, op: str) -> Shape:
    """Return the sizes asked for, one for each of the last dims; None keeps a size."""
    require(len(shape) > dims, "S002", f"{op}: a tensor of at least {dims + 1} dims is expected", input=shape)
    wanted = per_dim(output_size, dims, "output_size", op)
    return tuple([own if size is None else size for own, size in zip(shape[len(shape) - dims :], wanted, strict=True)])


adaptive_avg_pool1d = _adaptive(1)
adaptive_avg_pool2d = _adaptive(2)
adaptive_avg_pool3d = _adaptive(3)
