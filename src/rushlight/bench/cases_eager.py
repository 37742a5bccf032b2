"""Fifty common operators by group, called eagerly on a million elements.

They were chosen before any of them was measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from rushlight.bench.records import Array, Case, Inputs, normal

SIDE = 1024
COUNT = SIDE * SIDE
BOUNDARIES = 4096  # of `searchsorted`
KINDS = 50_000  # different integers of `unique`
CONTESTANTS = ("rushlight-eager", "torch")
Make = Callable[[np.random.Generator], Inputs]


def squares(*names: str) -> Make:
    """Normal matrices of a million elements."""
    return lambda rng: {name: normal(rng, SIDE, SIDE) for name in names}


def distinct(rng: np.random.Generator, count: int) -> Array:
    """Normal numbers, no two of them equal: their order has one answer."""
    drawn = rng.permutation(np.unique(normal(rng, count + count // 4)))
    assert drawn.size >= count
    return drawn[:count]


def distinct_line(rng: np.random.Generator) -> Inputs:
    """A million numbers that are all different."""
    return {"x": distinct(rng, COUNT)}


def distinct_square(rng: np.random.Generator) -> Inputs:
    """A matrix of them."""
    return {"x": distinct(rng, COUNT).reshape(SIDE, SIDE)}


def positive_square(rng: np.random.Generator) -> Inputs:
    """A matrix of numbers between a half and four."""
    return {"x": rng.uniform(0.5, 4.0, (SIDE, SIDE)).astype(np.float32)}


def powers(rng: np.random.Generator) -> Inputs:
    """Positive numbers and exponents."""
    return {**positive_square(rng), "y": normal(rng, SIDE, SIDE)}


def selection(rng: np.random.Generator) -> Inputs:
    """A mask of every second element, more or less, and two matrices."""
    return {"mask": rng.random((SIDE, SIDE)) < 0.5, **squares("x", "y")(rng)}


def near_one(rng: np.random.Generator) -> Inputs:
    """Numbers whose products neither vanish nor overflow."""
    return {"x": 1 + normal(rng, SIDE, SIDE, scale=0.01)}


def boundaries(rng: np.random.Generator) -> Inputs:
    """Ascending boundaries, and a million numbers."""
    return {"edges": np.sort(distinct(rng, BOUNDARIES)), "x": normal(rng, COUNT)}


def places(rng: np.random.Generator) -> Inputs:
    """A line, and as many places in it."""
    return {"x": normal(rng, COUNT), "index": rng.integers(0, COUNT, COUNT)}


def scattered(rng: np.random.Generator) -> Inputs:
    """A line, where each of a million numbers is added to it, and the numbers."""
    return {**places(rng), "y": normal(rng, COUNT)}


def images(rng: np.random.Generator) -> Inputs:
    """A million numbers as channels of images, with a factor and a summand for each channel."""
    return {"x": normal(rng, 16, SIDE // 16, 32, 32), "w": normal(rng, SIDE // 16), "b": normal(rng, SIDE // 16)}


def operator(
    group: str,
    name: str,
    make: Make,
    touched: float,
    work: float = 1.0,
    program: str | None = None,
) -> Case:
    """A call on a million elements, with `touched` floats to move and `work` operations for each."""
    return Case(
        f"{group}/{name}",
        "eager",
        program or name.replace("-", "_"),
        make,
        flops=work * COUNT,
        bytes=4.0 * touched * COUNT,
        contestants=CONTESTANTS,
    )


def pointwise() -> Sequence[Case]:
    """Thirteen that compute each element by itself."""
    unary = [operator("pointwise", name, squares("x"), 2) for name in ("abs", "clamp", "relu", "exp", "sin", "tanh")]
    return [
        *[operator("pointwise", name, squares("x", "y"), 3) for name in ("add", "mul", "div")],
        *unary,
        *[operator("pointwise", name, squares("x"), 2) for name in ("sigmoid", "gelu")],
        operator("pointwise", "log", positive_square, 2),
        operator("pointwise", "pow", powers, 3),
    ]


def reductions() -> Sequence[Case]:
    """Nine that make one result of many."""
    return [
        operator("reductions", "sum", squares("x"), 1),
        operator("reductions", "sum-dim0", squares("x"), 1, program="sum_rows"),
        *[operator("reductions", name, squares("x"), 1) for name in ("mean", "amax", "var", "norm", "logsumexp")],
        operator("reductions", "max-dim0", distinct_square, 1),
        operator("reductions", "argmax", distinct_line, 1),
    ]


def scans() -> Sequence[Case]:
    """Four whose results each continue the one before."""
    return [
        operator("scans", "cumsum", lambda rng: {"x": normal(rng, COUNT)}, 2),
        operator("scans", "cumsum-rows", squares("x"), 2),
        operator("scans", "cumprod", near_one, 2),
        operator("scans", "logcumsumexp", squares("x"), 2),
    ]


def orders() -> Sequence[Case]:
    """Six that sort or search."""
    return [
        operator("sort-search", "sort", distinct_line, 4),
        operator("sort-search", "sort-rows", distinct_square, 4),
        operator("sort-search", "topk", distinct_square, 1),
        operator("sort-search", "searchsorted", boundaries, 3),
        operator("sort-search", "unique", lambda rng: {"x": rng.integers(0, KINDS, COUNT)}, 2),
        operator("sort-search", "median", distinct_line, 1),
    ]


def indexing() -> Sequence[Case]:
    """Eight that read or write where indices or masks say."""
    return [
        operator("indexing", "where", selection, 3.25),
        operator("indexing", "gather", lambda rng: {**squares("x")(rng), "index": places_in_rows(rng, SIDE, SIDE)}, 4),
        operator("indexing", "index-select", lambda rng: {**squares("x")(rng), "index": places_in_rows(rng, SIDE)}, 2),
        operator("indexing", "index", places, 4),
        operator("indexing", "masked-select", selection, 1.75),
        operator("indexing", "masked-fill", selection, 2.25),
        operator("indexing", "nonzero", selection, 2.25),
        operator("indexing", "scatter-add", scattered, 5),
    ]


def places_in_rows(rng: np.random.Generator, *shape: int) -> Array:
    """Places in one side of a matrix."""
    return rng.integers(0, SIDE, shape)


def products() -> Sequence[Case]:
    """Three that multiply and add."""

    def matrices(rng: np.random.Generator) -> Inputs:
        return {name: normal(rng, 16, SIDE // 4, SIDE // 4) for name in "ab"}

    def image(rng: np.random.Generator) -> Inputs:
        return {"x": normal(rng, 1, 16, SIDE // 4, SIDE // 4), "w": normal(rng, 16, 16, 3, 3)}

    return [
        operator("matmul-conv", "matmul", squares("a", "b"), 3, 2.0 * SIDE),
        operator("matmul-conv", "bmm", matrices, 3, SIDE / 2.0),
        operator("matmul-conv", "conv2d", image, 2, 2.0 * 9 * 16, program="convolution"),
    ]


def normalizations() -> Sequence[Case]:
    """Three along rows, and one along channels."""

    def rows(rng: np.random.Generator) -> Inputs:
        return {"x": normal(rng, SIDE, SIDE), "w": normal(rng, SIDE), "b": normal(rng, SIDE)}

    return [
        operator("normalisation", "softmax", squares("x"), 2, 5.0),
        operator("normalisation", "log-softmax", squares("x"), 2, 5.0),
        operator("normalisation", "layer-norm", rows, 2, 8.0),
        operator("normalisation", "batch-norm", images, 2, 8.0),
    ]


def joins() -> Sequence[Case]:
    """Three that copy into another arrangement."""
    return [
        operator("joining", "cat", lambda rng: {name: normal(rng, SIDE // 2, SIDE) for name in "xy"}, 2),
        operator("joining", "flip", squares("x"), 2),
        operator("joining", "transpose-copy", squares("x"), 2),
    ]


OPERATORS: tuple[Case, ...] = (
    *pointwise(),
    *reductions(),
    *scans(),
    *orders(),
    *indexing(),
    *products(),
    *normalizations(),
    *joins(),
)
