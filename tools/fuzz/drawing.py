"""Drawing what a statement is made of: live values, new inputs of any layout, dims, numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from random import Random
from typing import Any

import numpy as np

from tools.fuzz.program import COMPLEX, DTYPES, FLOATS, INTEGERS, Array, Input, row_major
from tools.fuzz.running import leaf

_PALETTE = {
    "float32": 46, "float64": 8, "bfloat16": 8, "float16": 7, "int64": 12, "int32": 3, "int16": 1, "int8": 2,
    "uint8": 3, "bool": 7, "complex64": 2, "complex128": 1,
}  # fmt: skip
"""How often a program works in a dtype."""

_WAYS = ("permuted", "permuted", "stepped", "expanded", "overlapping")
"""Layouts of inputs that are not dense."""

_SIZES = (0, 2, 2, 3, 3, 4, 5, 7, 8, 9, 16, 17, 33)
_ONES = 0.13  # share of sizes that are 1
_MOST = 700  # elements of an input
_INPUTS = 14  # of a program; statements' results are named after these

_SPECIAL = (
    *[float("nan")] * 4,
    float("inf"),
    -float("inf"),
    -0.0,
    0.0,
    1.0,
    -1.0,
    0.5,
    2.0,
    1e30,
    -1e30,
    1e-30,
    20000.0,
)
_KINDS: dict[str, tuple[str, ...]] = {
    "any": tuple(DTYPES),
    "number": (*FLOATS, *INTEGERS, *COMPLEX),
    "real": (*FLOATS, *INTEGERS, "bool"),
    "ordered": (*FLOATS, *INTEGERS),
    "float": FLOATS,
    "inexact": (*FLOATS, *COMPLEX),
    "wide": ("float32", "float64"),
    "integer": INTEGERS,
    "bits": (*INTEGERS, "bool"),
    "bool": ("bool",),
    "complex": COMPLEX,
}
"""Sets of dtypes that operators take."""


class Draw:
    """A program in the making: its inputs, its live values as PyTorch's tensors, and chance."""

    def __init__(self, key: str, torch: Any) -> None:
        self.random = Random(key)
        self.numbers = np.random.default_rng(self.random.getrandbits(32))
        self.torch = torch
        self.inputs: list[Input] = []
        self.live: dict[str, Any] = {}
        self.dtypes = some_dtypes(self.random)
        # Kernels are compiled once for a combination of dtypes, ranks and layouts: most programs share a few of these.
        self.few: str | None = None  # the name of the family
        self.wild = self.chance(0.1)
        self.rank_of_most = 4 if self.wild else 3
        self.base = self.small_shape(self.random.choice((2, 3, 4) if self.wild else (0, 1, 2, 2, 2, 3)))
        self.strided = self.wild or self.chance(0.6)
        self.ways: tuple[str, ...] = _WAYS

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self.random.random() < probability

    def pick(self, options: Sequence[Any]) -> Any:
        """One of the options; in a family one of the few that its programs share, of what is a tuple."""
        if self.few is not None and options.__class__ is tuple and len(options) > 2:
            options = [options[place] for place in few_of(self.few, len(options))]
        return self.random.choice(options)

    def habit(self, what: str) -> Random:
        """Chance; in a family one of four chances, the same in all its programs, for what kernels differ by."""
        return self.random if self.few is None else Random(f"{self.few} {what} {self.random.randrange(4)}")

    def small_shape(self, rank: int) -> tuple[int, ...]:
        """Sizes of few elements in all; 0, 1 and odd ones among them."""
        random = self.habit(f"ones {rank}")
        shape = [1 if random.random() < _ONES else self.random.choice(_SIZES) for _ in range(rank)]
        while prod(shape) > _MOST:
            shape[self.random.randrange(rank)] = self.random.choice((1, 2, 3))
        return tuple(shape)

    # Values

    def value(self, kind: str = "any", rank: int | None = None, least: int = 0, filled: bool = False) -> str:
        """A value of a kind of dtype: a live one, or a new input. `filled`: with elements."""

        def fits(tensor: Any) -> bool:
            return (
                dtype_of(tensor) in _KINDS[kind]
                and (rank is None or tensor.dim() == rank)
                and tensor.dim() >= least
                and not (filled and tensor.numel() == 0)
                and tensor.numel() <= 4 * _MOST
            )

        names = [name for name, tensor in self.live.items() if fits(tensor)]
        if names and (self.chance(0.85) or len(self.inputs) >= _INPUTS):
            return names[-1 - min(int(self.random.expovariate(0.5)), len(names) - 1)]
        dims = self.random.randrange(least, max(self.rank_of_most, least) + 1) if rank is None else rank
        shape = self.base if len(self.base) == dims or (rank is None and len(self.base) >= least) else None
        if shape is None or self.chance(0.2):
            shape = self.small_shape(dims)
        if filled:
            shape = tuple([size or 2 for size in shape])
        return self.new(shape, self.dtype(kind))

    def like(self, name: str, kind: str | None = None) -> str:
        """A value of the same shape, mostly of the same dtype; the value itself sometimes."""
        shape, wanted = self.shape(name), _KINDS[kind] if kind else (self.dtype_name(name),)
        names = [one for one, other in self.live.items() if tuple(other.shape) == shape and dtype_of(other) in wanted]
        if names and self.chance(0.6):
            return self.pick(names)
        return self.new(shape, self.pick([one for one in self.dtypes if one in wanted] or wanted))

    def broadcast(self, name: str, kind: str = "any") -> str:
        """A value that broadcasts with another one: of its shape, with sizes of 1, fewer dims or more."""
        shape = self.shape(name)
        names = [
            one
            for one, other in self.live.items()
            if dtype_of(other) in _KINDS[kind] and meets(tuple(other.shape), shape)
        ]
        if names and self.chance(0.5):
            return self.pick(names)
        sizes, random = list(shape), self.habit(f"broadcast {len(shape)}")
        if random.random() < 0.35:
            sizes = [1 if random.random() < 0.5 else size for size in shape]
        if random.random() < 0.25:
            sizes = sizes[random.randrange(min(2, len(sizes)) + 1) :]
        elif random.random() < 0.15 and len(sizes) < 4 and prod(shape) < 100:
            sizes = [self.pick((1, 2, 3)), *sizes]
        if self.chance(0.02):
            sizes = [*sizes, 3]
        own = self.dtype_name(name)
        return self.new(tuple(sizes), own if own in _KINDS[kind] and self.chance(0.7) else self.dtype(kind))

    def new(self, shape: tuple[int, ...], dtype: str, values: Callable[[int], Array] | None = None) -> str:
        """A new input of any layout; `values` makes the elements of the storage from their count."""
        strides, offset, count = self.layout(shape)
        made = self.elements(dtype, count) if values is None else values(count).astype(DTYPES[dtype])
        given = Input(dtype, shape, strides, offset, made)
        name = f"v{len(self.inputs)}"
        self.inputs.append(given)
        self.live[name] = leaf(given, made.copy(), self.torch)
        return name

    def indices(self, shape: tuple[int, ...], size: int, dtype: str = "int64") -> str:
        """A new input of indices below a size; rarely one that is out of range."""
        high = size + 1 if self.chance(0.02) else size
        return self.new(shape, dtype, lambda count: self.numbers.integers(0, max(high, 1), count))

    def dtype(self, kind: str) -> str:
        """A dtype of a kind, one of the program's where that is possible."""
        own = [name for name in self.dtypes if name in _KINDS[kind]]
        return self.pick(own or _KINDS[kind])

    def elements(self, dtype: str, count: int) -> Array:
        """Elements of a storage: small numbers, in some inputs special ones among them."""
        kind = DTYPES[dtype].kind
        if dtype == "bool":
            return self.numbers.random(count) < 0.6
        if kind in "iu":
            return self._integers(dtype, count)
        if kind == "c":
            pair = self._floats("float64", count) + 1j * self._floats("float64", count)
            return pair.astype(DTYPES[dtype])
        return self._floats(dtype, count)

    def _integers(self, dtype: str, count: int) -> Array:
        limits = np.iinfo(DTYPES[dtype])
        low, high = (0, 12) if limits.min == 0 else (-6, 10)
        values = self.numbers.integers(low, high, count).astype(DTYPES[dtype])
        if self.chance(0.1):
            extreme = self.numbers.random(count) < 0.3
            values[extreme] = self.numbers.choice(np.array([limits.min, limits.max, 0], DTYPES[dtype]), extreme.sum())
        return values

    def _floats(self, dtype: str, count: int) -> Array:
        way = self.random.random()
        if way < 0.3:
            values = self.numbers.integers(-8, 9, count) / 2
        elif way < 0.85:
            values = self.numbers.standard_normal(count) * 2
        else:
            values = np.exp2(self.numbers.uniform(-40, 40, count)) * self.numbers.choice((-1.0, 1.0), count)
        if self.chance(0.25):
            special = self.numbers.random(count) < 0.25
            values[special] = self.numbers.choice(np.array([*_SPECIAL, *limits_of(dtype)]), special.sum())
        with np.errstate(over="ignore"):
            return values.astype(DTYPES[dtype])

    def layout(self, shape: tuple[int, ...]) -> tuple[tuple[int, ...], int, int]:
        """Strides, offset and elements of the storage: dense, permuted, stepped, expanded, overlapping, with offset."""
        if not self.strided or self.chance(0.5):
            return row_major(shape), 0, prod(shape)
        random = self.habit(f"layout {len(shape)}")
        way = "any" if self.wild else self.pick(self.ways)
        order = list(range(len(shape)))
        if way == "any":
            random.shuffle(order)
        elif way == "permuted":
            order = order[:-2] + order[-2:][::-1] if random.random() < 0.6 else order[::-1]
        strides, step = [0] * len(shape), random.choice((1, 2)) if way in ("stepped", "any") else 1
        once = random.randrange(len(shape)) if shape else 0
        for dim in reversed(order):
            strides[dim] = step
            if (way == "expanded" and dim == once) or (way == "any" and self.chance(0.1)):
                strides[dim] = 0
            elif not (way == "overlapping" and dim >= once) and not (way == "any" and self.chance(0.1)):
                step *= max(shape[dim], 1)
            if way == "any" and self.chance(0.1):
                step += 1
        offset = self.random.choice((0, 0, 0, 1, 3))
        last = sum([(size - 1) * stride for size, stride in zip(shape, strides, strict=True)])
        return tuple(strides), offset, offset + (last + 1 if prod(shape) else 0) + self.random.choice((0, 0, 2))

    # What is known of a value, and arguments that fit it

    def shape(self, name: str) -> tuple[int, ...]:
        """The sizes of a value."""
        return tuple(self.live[name].shape)

    def rank(self, name: str) -> int:
        """The dims of a value."""
        return self.live[name].dim()

    def dtype_name(self, name: str) -> str:
        """The dtype of a value."""
        return dtype_of(self.live[name])

    def dim(self, name: str, extra: int = 0) -> int:
        """A dim, from either end; out of range rarely."""
        rank = self.rank(name) + extra
        if self.chance(0.01):
            return rank + 1
        return self.random.randrange(-max(rank, 1), max(rank, 1))

    def dims(self, name: str) -> tuple[int, ...]:
        """Some dims, each once."""
        rank = self.rank(name)
        chosen = self.random.sample(range(rank), self.random.randrange(rank + 1))
        return tuple([dim - rank if self.chance(0.3) else dim for dim in chosen])

    def scalar(self, name: str | None = None) -> str:
        """A Python number that suits a value's dtype: an int, often a float, a bool rarely."""
        dtype = "float32" if name is None else self.dtype_name(name)
        if DTYPES[dtype].kind in "biu" and self.chance(0.8):
            return str(self.pick((0, 1, 2, 3, -1, -2, 7, True)))
        if dtype in COMPLEX and self.chance(0.3):
            return "(1.5-2j)"
        return str(self.pick((0, 1, 2, -1, 0.5, 2.0, -1.5, 3, 0.1, 1e-3, 100.0, "float('inf')", "float('nan')", 0.0)))

    def positive(self) -> str:
        """A positive float."""
        return str(self.pick((0.1, 0.5, 1.0, 2.0, 1.5, 1e-5)))

    def flag(self) -> str:
        """True or False."""
        return str(self.chance(0.5))


def some_dtypes(random: Random) -> list[str]:
    """The dtypes that a program works in."""
    return random.choices(list(_PALETTE), list(_PALETTE.values()), k=random.choice((1, 1, 2, 3)))


@lru_cache(1000)
def few_of(family: str, count: int) -> tuple[int, ...]:
    """Two of so many options, the same in all programs of a family."""
    return tuple(Random(f"{family} {count}").sample(range(count), 2))


def some_ways(random: Random) -> tuple[str, ...]:
    """Two ways to lay out an input beside the dense one."""
    return tuple(random.sample(_WAYS, 2))


def dtype_of(tensor: Any) -> str:
    """A tensor's dtype by its name."""
    return str(tensor.dtype).partition(".")[2]


def meets(one: Sequence[int], other: Sequence[int]) -> bool:
    """Whether two shapes broadcast."""
    pairs = zip(reversed(one), reversed(other), strict=False)
    return all(a == b or a == 1 or b == 1 for a, b in pairs) and prod(one or (1,)) <= _MOST


def limits_of(dtype: str) -> tuple[float, ...]:
    """Numbers at the ends of a float dtype's range."""
    return {
        "float16": (65504.0, -65504.0, 6e-8, 6.1e-5),
        "bfloat16": (3.38e38, -3.38e38, 1e-40, 1.2e-38),
        "float32": (3.4028234e38, -3.4028234e38, 1e-45, 1.1754944e-38),
        "float64": (1.7e308, -1.7e308, 5e-324, 2.3e-308),
    }[dtype]
