"""Random programs of views and in-place writes, over inputs of any layout.

The generator knows where the elements of each value lie, as far as views of inputs and dense results go: so most of
its programs run, and what they write to rarely overlaps itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from random import Random
from typing import NamedTuple

import numpy as np

from tools.fuzz.program import DTYPES, Array, Input, Program, row_major
from tools.fuzz.view_values import Fitting, Found, Shown, replaced
from tools.fuzz.view_writes import WRITES

_SIZES = (1, 2, 3, 3, 4, 5)
_RANKS = (0, 1, 2, 2, 3, 3, 4)
_DTYPES = ("float32", "float32", "float32", "float64", "int32", "int64", "int8", "bool")
_LAYOUTS = ("dense", "dense", "permuted", "permuted", "gaps", "expanded", "overlapping")
_SURVEY = 6000  # the first programs of a seed draw from everything, as a few of the others do
_FAMILY = 1000  # programs
_FREE = 0.03  # share of programs that draw from everything
_WIDTHS = {1: ("int8", "uint8"), 2: ("int16",), 4: ("float32", "int32"), 8: ("float64", "int64")}


class Family(NamedTuple):
    """What neighbouring programs draw from: sizes, ranks, dtypes and layouts of inputs, views, writes, constants."""

    sizes: tuple[int, ...]
    ranks: tuple[int, ...]
    dtypes: tuple[str, ...]
    layouts: tuple[str, ...]
    views: tuple[Callable[[Random, Shown], Found], ...]
    writes: tuple[Callable[[Random, Shown, Fitting], str | None], ...]


@lru_cache(4)
def family(seed: int, place: int) -> Family:
    """The family of a seed at a place.

    A kernel takes 20 ms to compile, a program without a new one 10. Programs that draw from everything need two new
    ones each, without end; those of a family share most of theirs, whatever their values and order.
    """
    random = Random(f"views {seed} family {place}")
    other = random.choice(_DTYPES[4:])
    rank = random.choice((1, 2, 2, 3, 3))
    return Family(
        _SIZES if random.random() < 0.4 else _SIZES[1:],
        (rank, rank, rank, rank - 1),
        (*[random.choice(("float32", "float32", "float64"))] * 3, other),
        ("dense", "dense", random.choice(_LAYOUTS[2:])),
        tuple(random.sample(VIEWS, 12)),
        tuple(random.sample(WRITES, 5)),
    )


class Writer:
    """Writes one program."""

    def __init__(self, seed: int, number: int) -> None:
        self.random = Random(f"views {seed} {number}")
        self.kin = Family(_SIZES, _RANKS, _DTYPES, _LAYOUTS, VIEWS, WRITES)
        if number >= _SURVEY and self.random.random() >= _FREE:
            self.kin = family(seed, number // _FAMILY)
        self.inputs: list[Input] = []
        self.statements: list[str] = []
        self.values: list[Shown] = []
        self.count = 0
        for _ in range(self.random.choice((1, 1, 2, 2, 3))):
            self._input()
        for value in [*self.values]:
            if not value.writable and self.random.random() < 0.7:  # what has a gradient, and may be written to
                name = self._name()
                self._append(f"{name} = {value.name} * {self.random.choice((1, 2))}")
                self._fresh(value.dtype, value.shape, name)

    # Inputs.

    def _input(self) -> None:
        random = self.random
        dtype = random.choice(self.kin.dtypes)
        shape = tuple([self._size() for _ in range(random.choice(self.kin.ranks))])
        strides, offset = self._layout(shape)
        extent = sum([(size - 1) * stride for size, stride in zip(shape, strides, strict=True)]) + 1
        room = offset + (extent if 0 not in shape else 0) + random.choice((0, 0, 2))
        requires = dtype.startswith("float") and random.random() < 0.4
        values = self._numbers(room, dtype)
        self.inputs.append(Input(dtype, shape, strides, offset, values, requires))
        self._add(dtype, shape, strides, offset, room, not requires)

    def _size(self) -> int:
        return 0 if self.random.random() < 0.015 else self.random.choice(self.kin.sizes)

    def _layout(self, shape: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
        random = self.random
        kind = random.choice(self.kin.layouts)
        order = list(range(len(shape)))
        if kind != "dense":
            random.shuffle(order)
        step, strides = 1, [1] * len(shape)
        for dim in reversed(order):
            strides[dim] = step
            step *= max(shape[dim], 1) * (random.choice((1, 2)) if kind == "gaps" else 1)
            if kind == "gaps" and random.random() < 0.3:
                step += 1
        if kind == "expanded":
            strides = [0 if random.random() < 0.4 else stride for stride in strides]
        if kind == "overlapping":
            strides = [random.choice((1, 1, 2, 3, 4)) for _ in shape]
        return tuple(strides), 0 if random.random() < 0.7 else random.randrange(1, 4)

    def _numbers(self, count: int, dtype: str) -> Array:
        low = 0 if dtype in ("bool", "uint8") else -4
        numbers = [self.random.randrange(low, 2 if dtype == "bool" else 5) for _ in range(count)]
        return np.array(numbers, np.int64).astype(DTYPES[dtype])

    # Values.

    def _name(self) -> str:
        return f"v{self.count}"

    def _add(
        self, dtype: str, shape: Sequence[int], strides: Sequence[int], offset: int, room: int, writable: bool
    ) -> None:
        self.values.append(Shown(self._name(), dtype, tuple(shape), tuple(strides), offset, room, writable))
        self.count += 1

    def _fresh(self, dtype: str, shape: Sequence[int], name: str) -> None:
        assert name == self._name()
        shape = tuple(shape)
        self._add(dtype, shape, row_major(shape), 0, int(np.prod(shape)), True)

    def _append(self, statement: str) -> None:
        self.statements.append(statement)

    def _pick(self, wanted: Callable[[Shown], bool] = lambda _: True) -> Shown | None:
        # Later values are liked better, so that views of views come about.
        fitting = [value for value in self.values if wanted(value)]
        if not fitting:
            return None
        return fitting[max(self.random.randrange(len(fitting)), self.random.randrange(len(fitting)))]

    def _fitting(self, shape: tuple[int, ...], dtype: str | None = None) -> Shown | None:
        """A value that broadcasts to a shape."""

        def fits(value: Shown) -> bool:
            rest = shape[len(shape) - len(value.shape) :]
            pairs = zip(value.shape, rest, strict=True) if len(value.shape) <= len(shape) else ((0, 1),)
            return all(one in (1, other) for one, other in pairs) and (dtype is None or value.dtype == dtype)

        return self._pick(fits)

    # The program.

    def program(self, seed: int, number: int) -> Program:
        """The finished program."""
        random = self.random
        for _ in range(random.randrange(2, 9)):
            random.choices((self.view, self.write, self.compute), (5, 3, 2))[0]()
        made = [value.name for value in self.values[len(self.inputs) :]] or [self.values[0].name]
        results = sorted({made[-1], *random.sample(made, min(len(made), 3))}, key=lambda name: int(name[1:]))
        return Program(seed, number, tuple(self.inputs), tuple(self.statements), tuple(results))

    def view(self) -> None:
        """One view of a value."""
        value = self._pick()
        assert value is not None
        found = self.random.choice(self.kin.views)(self.random, value)
        if found is not None:
            text, shape, strides, offset, dtype = found
            self._append(f"{self._name()} = {value.name}{text}")
            self._add(dtype, shape, strides, offset, value.room, value.writable)

    def compute(self) -> None:
        """A result of its own."""
        random, value = self.random, self._pick()
        assert value is not None
        name = self._name()
        numeric = value.dtype != "bool"
        kind = random.choice(("binary", "binary", "clone", "where", "sum", "compare", "contiguous", "cat", "full"))
        other = self._fitting(value.shape, value.dtype)
        if kind == "binary" and numeric and other is not None:
            pair = [value.name, other.name]
            random.shuffle(pair)
            self._append(f"{name} = {pair[0]} {random.choice('++-*')} {pair[1]}")
            self._fresh(value.dtype, value.shape, name)
        elif kind == "where" and other is not None:
            condition = f"{value.name} > 0" if numeric else value.name
            self._append(f"{name} = torch.where({condition}, {other.name}, {value.name})")
            self._fresh(value.dtype, value.shape, name)
        elif kind == "sum" and value.shape and numeric:
            dim = random.randrange(len(value.shape))
            keep = random.random() < 0.6
            self._append(f"{name} = {value.name}.sum({dim}, keepdim={keep})")
            dtype = value.dtype if value.is_float else "int64"
            shape = list(value.shape)
            shape[dim : dim + 1] = [1] if keep else []
            self._fresh(dtype, shape, name)
        elif kind == "compare" and numeric:
            self._append(f"{name} = {value.name} > {random.randrange(-2, 3)}")
            self._fresh("bool", value.shape, name)
        elif kind == "cat" and value.shape:
            dim = random.randrange(len(value.shape))
            self._append(f"{name} = torch.cat([{value.name}, {value.name}], {dim})")
            shape = tuple([size * (1 + (at == dim)) for at, size in enumerate(value.shape)])
            self._fresh(value.dtype, shape, name)
        elif kind == "full":
            like = random.choice(("zeros_like", "ones_like"))
            self._append(f"{name} = torch.{like}({value.name})")
            self._fresh(value.dtype, value.shape, name)
        else:
            self._append(f"{name} = {value.name}.clone()")
            self._fresh(value.dtype, value.shape, name)

    def write(self) -> None:
        """One write to a value."""
        careful = self.random.random() < 0.95
        value = self._pick(lambda value: value.writable and not (careful and value.overlaps))
        if value is not None:
            text = self.random.choice(self.kin.writes)(self.random, value, self._fitting)
            if text is not None:
                self._append(text)


def _dims(random: Random, value: Shown, count: int = 1) -> list[int] | None:
    if len(value.shape) < count:
        return None
    return random.sample(range(len(value.shape)), count)


def _sign(random: Random, dim: int, value: Shown) -> int:
    return dim - len(value.shape) if random.random() < 0.3 else dim


def _permute(random: Random, value: Shown) -> Found:
    order = list(range(len(value.shape)))
    random.shuffle(order)
    shape, strides = [value.shape[dim] for dim in order], [value.strides[dim] for dim in order]
    return f".permute({tuple(order)})", shape, strides, value.offset, value.dtype


def _transpose(random: Random, value: Shown) -> Found:
    dims = _dims(random, value, 2)
    if dims is None:
        return None
    order = list(range(len(value.shape)))
    order[dims[0]], order[dims[1]] = dims[1], dims[0]
    name = random.choice(("transpose", "swapaxes", "swapdims"))
    shape, strides = [value.shape[dim] for dim in order], [value.strides[dim] for dim in order]
    return f".{name}({dims[0]}, {_sign(random, dims[1], value)})", shape, strides, value.offset, value.dtype


def _turned(random: Random, value: Shown) -> Found:
    rank = len(value.shape)
    if rank != 2:
        return f".movedim({0 if rank else -1}, -1)", *_moved(value), value.offset, value.dtype
    return random.choice((".t()", ".T", ".mT")), value.shape[::-1], value.strides[::-1], value.offset, value.dtype


def _moved(value: Shown) -> tuple[Sequence[int], Sequence[int]]:
    return (*value.shape[1:], *value.shape[:1]), (*value.strides[1:], *value.strides[:1])


def _unsqueeze(random: Random, value: Shown) -> Found:
    at = random.randrange(len(value.shape) + 1)
    step = value.shape[at] * value.strides[at] if at < len(value.shape) else 1
    shape, strides = list(value.shape), list(value.strides)
    shape.insert(at, 1)
    strides.insert(at, step)
    if random.random() < 0.3:
        return f"[{':, ' * at}None]", shape, strides, value.offset, value.dtype
    return f".unsqueeze({at})", shape, strides, value.offset, value.dtype


def _squeeze(random: Random, value: Shown) -> Found:
    kept = [dim for dim, size in enumerate(value.shape) if size != 1]
    shape, strides = [value.shape[dim] for dim in kept], [value.strides[dim] for dim in kept]
    return ".squeeze()", shape, strides, value.offset, value.dtype


def _expand(random: Random, value: Shown) -> Found:
    lead = [random.choice((1, 2, 3)) for _ in range(random.choice((0, 0, 1, 2)))]
    shape = [*lead, *[random.choice((1, 2, 3)) if size == 1 else size for size in value.shape]]
    rows = zip(value.shape, shape[len(lead) :], value.strides, strict=True)
    strides = [*[0 for _ in lead], *[0 if old != new else stride for old, new, stride in rows]]
    sizes = [-1 if at >= len(lead) and random.random() < 0.2 and value.shape[at - len(lead)] == size else size
             for at, size in enumerate(shape)]  # fmt: skip
    if not shape:
        return None
    name = "broadcast_to" if -1 not in sizes and random.random() < 0.3 else "expand"
    return f".{name}({tuple(sizes)})", shape, strides, value.offset, value.dtype


def _unfold(random: Random, value: Shown) -> Found:
    dims = _dims(random, value)
    if dims is None or not value.shape[dims[0]]:
        return None
    dim = dims[0]
    size, step = random.randrange(1, value.shape[dim] + 1), random.choice((1, 1, 2, 3))
    count, stride = (value.shape[dim] - size) // step + 1, value.strides[dim]
    shape, strides = (
        (*replaced(value.shape, dim, count), size),
        (*replaced(value.strides, dim, stride * step), stride),
    )
    return f".unfold({dim}, {size}, {step})", shape, strides, value.offset, value.dtype


def _as_strided(random: Random, value: Shown) -> Found:
    shape, strides, reach = [], [], 0
    given = random.random() < 0.6
    offset = random.randrange(max(value.room, 1)) if given else value.offset
    for _ in range(random.choice((0, 1, 2, 2, 3))):
        size, stride = random.choice((1, 2, 3)), random.choice((0, 1, 1, 2, 3, 4))
        if offset + reach + (size - 1) * stride < value.room:
            shape.append(size)
            strides.append(stride)
            reach += (size - 1) * stride
    if offset >= value.room:
        return None
    place = f", {offset}" if given else ""
    return f".as_strided({tuple(shape)}, {tuple(strides)}{place})", shape, strides, offset, value.dtype


def _diagonal(random: Random, value: Shown) -> Found:
    dims = _dims(random, value, 2)
    if dims is None:
        return None
    (first, second), offset = dims, random.choice((0, 0, 1, -1))
    rows, columns = value.shape[first] + min(offset, 0), value.shape[second] - max(offset, 0)
    count = max(min(rows, columns), 0)
    kept = [dim for dim in range(len(value.shape)) if dim not in dims]
    start = max(-offset, 0) * value.strides[first] + max(offset, 0) * value.strides[second]
    shape = (*[value.shape[dim] for dim in kept], count)
    strides = (*[value.strides[dim] for dim in kept], value.strides[first] + value.strides[second])
    return (
        f".diagonal({offset}, {first}, {second})",
        shape,
        strides,
        value.offset + (start if count else 0),
        value.dtype,
    )


def _narrow(random: Random, value: Shown) -> Found:
    dims = _dims(random, value)
    if dims is None:
        return None
    dim = dims[0]
    start = random.randrange(value.shape[dim] + 1)
    length = random.randrange(value.shape[dim] - start + 1)
    if not length and random.random() < 0.9:
        return None
    shape, offset = replaced(value.shape, dim, length), value.offset + start * value.strides[dim]
    text = f".narrow({_sign(random, dim, value)}, {start}, {length})"
    if random.random() < 0.4 and length > 0 and start % length == 0 and start + length < value.shape[dim]:
        text = f".{random.choice(('split', 'tensor_split'))}({length}, {dim})[{start // length}]"
        if text.startswith(".tensor"):
            return None
    return text, shape, value.strides, offset, value.dtype


def _select(random: Random, value: Shown) -> Found:
    dims = _dims(random, value)
    if dims is None or not value.shape[dims[0]]:
        return None
    dim = dims[0]
    index = random.randrange(value.shape[dim])
    shape, strides = replaced(value.shape, dim), replaced(value.strides, dim)
    shown = index - value.shape[dim] if random.random() < 0.3 else index
    text = random.choice((f".select({dim}, {shown})", f"[{':, ' * dim}{shown}]", f".unbind({dim})[{shown}]"))
    return text, shape, strides, value.offset + index * value.strides[dim], value.dtype


def _slice(random: Random, value: Shown) -> Found:
    dims = _dims(random, value)
    if dims is None:
        return None
    dim = dims[0]
    size = value.shape[dim]
    start, step = random.randrange(max(size, 1)), random.choice((1, 1, 2, 3))
    stop = random.choice((None, random.randrange(start, size + 1)))
    count = len(range(size)[start:stop:step])
    if not count and random.random() < 0.9:
        return None
    shape, strides = replaced(value.shape, dim, count), replaced(value.strides, dim, value.strides[dim] * step)
    text = f"[{':, ' * dim}{start}:{'' if stop is None else stop}:{step}]"
    return text, shape, strides, value.offset + start * value.strides[dim], value.dtype


def _regroup(random: Random, value: Shown) -> Found:
    """Another shape. Whether it is a view is PyTorch's to say, so that nothing is known of the storage but its size."""
    count = int(np.prod(value.shape))
    dense = value.strides == row_major(value.shape)
    shapes = [(count,), (-1,), (1, count), (count, 1)]
    shapes += [(rows, count // rows) for rows in (2, 3) if count and count % rows == 0]
    if not count:
        return None
    asked = random.choice(shapes)
    shape = tuple([count if size == -1 else size for size in asked])
    name = "view" if dense and random.random() < 0.6 else "reshape"
    text = random.choice((f".{name}({asked})", ".flatten()", ".ravel()")) if len(shape) == 1 else f".{name}({asked})"
    offset, room = (value.offset, value.room) if dense else (0, count)
    strides = row_major(shape)
    return (text, shape, strides, offset, value.dtype) if dense or room <= value.room else None


def _merge(random: Random, value: Shown) -> Found:
    if len(value.shape) < 2 or 0 in value.shape:
        return None
    dim = random.randrange(len(value.shape) - 1)
    outer, inner = value.strides[dim], value.strides[dim + 1]
    if outer != inner * value.shape[dim + 1]:
        return None
    shape = (*value.shape[:dim], value.shape[dim] * value.shape[dim + 1], *value.shape[dim + 2 :])
    strides = (*value.strides[:dim], inner, *value.strides[dim + 2 :])
    text = random.choice((f".flatten({dim}, {dim + 1})", f".view({shape})"))
    return text, shape, strides, value.offset, value.dtype


def _part(random: Random, value: Shown) -> Found:
    dims = _dims(random, value)
    if dims is None:
        return None
    dim = dims[0]
    size = value.shape[dim]
    if size < 2 or size % 2:
        return None
    shape = replaced(value.shape, dim, 2, size // 2)
    strides = replaced(value.strides, dim, value.strides[dim] * (size // 2), value.strides[dim])
    return f".unflatten({dim}, (2, -1))", shape, strides, value.offset, value.dtype


def _bytes(random: Random, value: Shown) -> Found:
    dtype = random.choice(_WIDTHS[DTYPES[value.dtype].itemsize])
    if dtype == value.dtype or (dtype.startswith("float") and random.random() < 0.5):
        return None
    if dtype.startswith("float"):  # bits of small integers are denormal numbers
        return None
    return f".view(torch.{dtype})", value.shape, value.strides, value.offset, dtype


def _same(random: Random, value: Shown) -> Found:
    return random.choice(("[...]", ".view_as({0})", ".expand_as({0})", ".detach()")).format(value.name), value.shape, \
        value.strides, value.offset, value.dtype  # fmt: skip


VIEWS: tuple[Callable[[Random, Shown], Found], ...] = (
    _permute,
    _permute,
    _transpose,
    _turned,
    _unsqueeze,
    _unsqueeze,
    _squeeze,
    _expand,
    _expand,
    _unfold,
    _unfold,
    _as_strided,
    _as_strided,
    _diagonal,
    _narrow,
    _select,
    _select,
    _slice,
    _slice,
    _regroup,
    _merge,
    _part,
    _bytes,
    _same,
)


def written(seed: int, number: int) -> Program:
    """The program of a seed and number."""
    return Writer(seed, number).program(seed, number)
