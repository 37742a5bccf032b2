"""Random kernels: terms over axes, reductions and guards in any nesting give the oracle's bits, for any width."""

import random

import numpy as np
import pytest
from tests.codegen.kernel_oracle import buffer, check, kernel, loop, parallel, vector

from rushlight.ir.dtype import bfloat16, bool_, float16, float32, float64, int8, int32, int64
from rushlight.ir.kernel import Store
from rushlight.ir.scalar import (
    BLOCKED,
    LANES,
    SEQUENTIAL,
    Order,
    apply,
    cast,
    contract,
    guard,
    index,
    load,
    reduce,
    select,
)
from rushlight.sym import axis_symbol, floordiv, minimum, mod, size_of_code

ELEMENTS = 3000
ORDERS = (LANES, BLOCKED, Order(8, 2, 4), Order(20, 4, 5), Order(64, 16, 4), Order(24, 1, 8), SEQUENTIAL)


class Maker:
    """Draws terms whose loads stay within `ELEMENTS` for axes of up to 41 iterations."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.sizes = [size_of_code(name) for name in "abcd"]
        self.values = {size: self.draw.choice([0, 1, 2, 3, 5, 8, 13]) for size in self.sizes}
        self.values[self.sizes[0]] = self.draw.choice([1, 2, 3, 5, 8, 13])
        self.values[self.sizes[1]] = self.draw.choice([1, 3, 17, 33, 40])
        self.x, self.y, self.flags = buffer("x", float32), buffer("y", float32), buffer("flags", bool_)
        self.places = buffer("places", self.draw.choice([int32, int64]))
        self.others = buffer("others", self.draw.choice([int8, bfloat16, float16, float64]))

    def offset(self, axes):
        """An index expression that mixes some of the axes."""
        draw, total = self.draw, 0
        for axis in axes:
            kind = draw.random()
            if 0.25 <= kind < 0.7:
                total = total + axis * draw.choice([1, 1, 1, 2, 3])
            elif 0.7 <= kind < 0.85:
                divisor = draw.choice([2, 3, self.sizes[0]])
                total = (
                    total
                    + floordiv(axis, divisor) * draw.choice([1, 5])
                    + mod(axis, draw.choice([2, 7, self.sizes[1]]))
                )
            elif kind >= 0.85:
                total = total + minimum(axis, draw.choice([4, self.sizes[2]]))
        return total + draw.choice([0, 0, 1, 7])

    def load(self, axes):
        """A load: plain, converted, or by an index from memory."""
        kind = self.draw.random()
        if kind < 0.75:
            return load(self.draw.choice([self.x, self.x, self.y]), self.offset(axes))
        if kind < 0.88:
            return cast(load(self.others, self.offset(axes)), float32)
        place = cast(load(self.places, self.offset(axes)), int64)
        return load(self.x, place + index(self.offset(axes)) if self.draw.random() < 0.5 else place)

    def condition(self, axes):
        """A bool, from memory or from an index."""
        if not axes or self.draw.random() < 0.5:
            return load(self.flags, self.offset(axes))
        limit = index(self.draw.choice([3, self.sizes[3]]))
        return apply(self.draw.choice(["lt", "le"]), index(self.draw.choice(axes)), limit)

    def reduction(self, axes, depth):
        """A reduction over one or two fresh axes, at times as long as an outer axis says."""
        draw = self.draw
        sizes = [draw.choice([*self.sizes[:3], 4, 1, 3]) for _ in range(draw.choice([1, 1, 2]))]
        if axes and len(sizes) == 1 and draw.random() < 0.15:
            sizes = [draw.choice(axes) + draw.choice([0, 1])]
        bound = tuple([axis_symbol(size, "k") for size in sizes])
        inner = [axis for axis in axes if draw.random() < 0.8] + list(bound)
        order, body = draw.choice(ORDERS), self.term(inner, max(depth - 2, 0))
        if draw.random() < 0.25:
            return contract(bound, body, self.load(inner), order)
        kind = draw.choice(["sum", "wide sum", "max", "min"])
        if kind == "wide sum":
            return cast(reduce("sum", bound, body, order, float64), float32)
        return reduce(kind, bound, body, order)

    def term(self, axes, depth):
        """A float32 term over some axes."""
        kind = self.draw.random()
        if depth == 0 or kind < 0.15:
            return self.load(axes)
        if kind < 0.45:
            name = self.draw.choice(["add", "sub", "mul"])
            return apply(name, self.term(axes, depth - 1), self.term(axes, depth - 1))
        if kind < 0.68:
            choose = select if kind < 0.55 else guard
            return choose(self.condition(axes), self.term(axes, depth - 1), self.term(axes, depth - 1))
        return self.reduction(axes, depth) if kind < 0.92 else cast(index(self.offset(axes)), float32)

    def kernel(self):
        """A nest of some form."""
        a, b, c = self.sizes[:3]
        i, j, e = axis_symbol(a, "i"), axis_symbol(b, "j"), axis_symbol(c, "e")
        one, two, three = (buffer(name, float32) for name in ("out1", "out2", "out3"))
        form = self.draw.choice(["flat", "rows", "two parallel", "serial", "two inner"])
        if form == "flat":
            return kernel(parallel(j, Store(one, j, self.term([j], 4)), Store(two, j, self.term([j], 3))))
        if form == "rows":
            row = Store(two, i, self.term([i], 3))
            return kernel(parallel(i, row, vector(j, Store(one, i * b + j, self.term([i, j], 4)))))
        if form == "two parallel":
            return kernel(parallel(i, parallel(j, Store(one, i * b + j, self.term([i, j], 4)))))
        if form == "serial":
            inner = vector(j, Store(one, (i * c + e) * b + j, self.term([i, j, e], 4)))
            return kernel(parallel(i, loop(e, inner, Store(three, i * c + e, self.term([i, e], 3)))))
        first = vector(j, Store(one, i * b + j, self.term([i, j], 3)))
        return kernel(parallel(i, first, vector(e, Store(three, i * c + e, self.term([i, e], 3)))))

    def array(self, item, rng):
        """Contents for a buffer."""
        dtype = item.type.dtype
        if item.name.startswith("out"):
            return np.zeros(13 * 13 * 40 if item.name == "out1" else 200, np.float32)
        if item is self.places:
            return rng.integers(0, 500, ELEMENTS).astype(dtype.numpy)
        if item is self.flags:
            return rng.random(ELEMENTS) < 0.5
        return (rng.standard_normal(ELEMENTS) * (9 if dtype is int8 else 1)).astype(dtype.numpy)


@pytest.mark.parametrize("seed", range(10))
def test_random_kernel_has_the_bits_of_the_oracle(seed):
    maker, rng = Maker(seed), np.random.default_rng(seed)
    made = maker.kernel()
    arrays = {item: maker.array(item, rng) for item in made.buffers}
    with np.errstate(all="ignore"):
        check(made, arrays, maker.values, shares=1 + seed % 3)
