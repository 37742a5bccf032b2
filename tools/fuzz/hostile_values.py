"""Arguments that no function asks for: numbers out of bounds, objects whose special methods fail, odd tensors.

Each name is a function that makes the value anew, so that a call is source text: `F.relu(text())`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import rushlight as torch


class Boom(Exception):
    """What the special methods of hostile objects raise."""


def _fails(self: Any, *args: Any, **named: Any) -> Any:
    raise Boom("an object of the caller's fails")


def _object(name: str, **methods: Any) -> Callable[[], Any]:
    return type(name, (), methods)


class Kind(enum.Enum):
    """An enumeration."""

    FIRST = 1


class Whole(int):
    """An int of a class of its own."""


class Text(str):
    """A text of a class of its own."""

    __slots__ = ()


class Liar(list[Any]):
    """A list that tells another length than it has."""

    def __len__(self) -> int:
        return 1000


class Array:
    """An object with numpy's protocol, which fails."""

    __array__ = _fails
    dtype = property(_fails)
    shape = property(_fails)


BrokenIndex = _object("BrokenIndex", __index__=_fails)
TextIndex = _object("TextIndex", __index__=lambda self: "one")
HugeIndex = _object("HugeIndex", __index__=lambda self: 10**30)
FairIndex = _object("FairIndex", __index__=lambda self: 1)
BrokenLength = _object("BrokenLength", __len__=_fails, __getitem__=lambda self, at: 1)
NegativeLength = _object("NegativeLength", __len__=lambda self: -1, __iter__=lambda self: iter((1, 2)))
BrokenIterator = _object("BrokenIterator", __iter__=_fails, __len__=lambda self: 2)
BrokenNext = _object("BrokenNext", __iter__=lambda self: self, __next__=_fails)
BrokenItems = _object("BrokenItems", __len__=lambda self: 2, __getitem__=_fails)
BrokenTruth = _object("BrokenTruth", __bool__=_fails)
BrokenEquality = _object("BrokenEquality", __eq__=_fails, __hash__=lambda self: 1)
BrokenHash = _object("BrokenHash", __hash__=_fails)
BrokenAttributes = _object("BrokenAttributes", __getattr__=_fails)
BrokenText = _object("BrokenText", __repr__=_fails, __str__=_fails)
BrokenFloat = _object("BrokenFloat", __float__=_fails)
Plain = _object("Plain")


def _cyclic() -> list[Any]:
    found: list[Any] = [1]
    found.append(found)
    return found


def _deep(levels: int) -> Any:
    found: Any = 1
    for _ in range(levels):
        found = [found]
    return found


def _counting() -> Iterator[int]:
    yield from (1, 2)


def _tensor(shape: tuple[int, ...], dtype: Any, **named: Any) -> Any:
    return torch.zeros(shape, dtype=dtype, **named)


OTHERS: dict[str, Callable[[], Any]] = {
    "none": lambda: None,
    "empty_text": lambda: "",
    "text": lambda: "text",
    "digit": lambda: "1",
    "cuda": lambda: "cuda",
    "device_text": lambda: "cpu:99999999999999999999",
    "own_text": lambda: Text("cpu"),
    "data": lambda: b"\x00\x01",
    "true": lambda: True,
    "false": lambda: False,
    "complex_number": lambda: 1 + 2j,
    "nan": lambda: float("nan"),
    "infinite": lambda: float("inf"),
    "huge_float": lambda: 1e308,
    "half": lambda: 0.5,
    "minus_one": lambda: -1,
    "minus_three": lambda: -3,
    "sixty": lambda: 60,
    "terabyte": lambda: 1 << 42,
    "int62": lambda: 1 << 62,
    "int63": lambda: 1 << 63,
    "least": lambda: -(1 << 63),
    "int64": lambda: 1 << 64,
    "googol": lambda: 10**100,
    "minus_googol": lambda: -(10**100),
    "own_int": lambda: Whole(1),
    "kind": lambda: Kind.FIRST,
    "empty_list": list,
    "empty_tuple": lambda: (),
    "none_list": lambda: [None],
    "text_list": lambda: ["a", "b"],
    "ragged": lambda: [[1, 2], [3]],
    "mixed": lambda: [1, "a", None, 2.5],
    "negative_list": lambda: [-1, -2],
    "huge_list": lambda: [1 << 62, 1 << 62],
    "googol_list": lambda: [10**100],
    "float_list": lambda: [1.5, 2.5],
    "bool_list": lambda: [True, False],
    "long_list": lambda: [1] * 70,
    "tensor_list": lambda: [torch.ones(2), torch.ones(3, 1)],
    "cyclic": _cyclic,
    "deep": lambda: _deep(100),
    "deeper": lambda: _deep(20000),
    "liar": lambda: Liar([1, 2]),
    "dictionary": lambda: {"a": 1},
    "odd_dictionary": lambda: {1: torch.ones(2), None: "x"},
    "set_of_ints": lambda: {1, 2},
    "span": lambda: range(3),
    "counting": _counting,
    "slice_of_text": lambda: slice("a", None),
    "slice_back": lambda: slice(None, None, -1),
    "slice_huge": lambda: slice(10**30, -(10**30), 10**30),
    "dots": lambda: ...,
    "not_implemented": lambda: NotImplemented,
    "int_class": lambda: int,
    "tensor_class": lambda: torch.Tensor,
    "some_module": lambda: np,
    "some_function": lambda: len,
    "some_lambda": lambda: lambda *args: None,
    "plain": Plain,
    "broken_index": BrokenIndex,
    "text_index": TextIndex,
    "huge_index": HugeIndex,
    "fair_index": FairIndex,
    "broken_length": BrokenLength,
    "negative_length": NegativeLength,
    "broken_iterator": BrokenIterator,
    "broken_next": BrokenNext,
    "broken_items": BrokenItems,
    "broken_truth": BrokenTruth,
    "broken_equality": BrokenEquality,
    "broken_hash": BrokenHash,
    "broken_attributes": BrokenAttributes,
    "broken_text": BrokenText,
    "broken_float": BrokenFloat,
    "broken_array": Array,
    "objects": lambda: np.array([None, "a"], object),
    "texts": lambda: np.array(["a", "b"]),
    "dates": lambda: np.array(["2020-01-01"], "datetime64[D]"),
    "records": lambda: np.zeros(2, [("a", "f4"), ("b", "i8")]),
    "swapped": lambda: np.arange(3, dtype=">i4"),
    "numpy_int": lambda: np.int64(1),
    "numpy_float": lambda: np.float32(1.5),
    "numpy_bool": lambda: np.bool_(True),
    "numpy_array": lambda: np.ones((2, 3), np.float32),
    "frozen_array": lambda: np.broadcast_to(np.float32(1), (2, 3)),
    "dtype": lambda: torch.int64,
    "numpy_dtype": lambda: np.dtype("f4"),
    "device": lambda: torch.device("meta"),
    "size": lambda: torch.Size([2, 3]),
    "generator": torch.Generator,
    "module": lambda: torch.nn.Linear(2, 2),
}
"""What is no tensor."""

TENSORS: dict[str, Callable[[], Any]] = {
    "scalar": lambda: torch.tensor(1.5),
    "int_scalar": lambda: torch.tensor(2),
    "big_scalar": lambda: torch.tensor((1 << 63) - 1),
    "vector": lambda: torch.arange(3.0),
    "matrix": lambda: torch.arange(6.0).reshape(2, 3),
    "square": lambda: torch.eye(3),
    "cube": lambda: torch.ones(2, 3, 4),
    "image": lambda: torch.ones(1, 2, 4, 4),
    "volume": lambda: torch.ones(1, 2, 3, 3, 3),
    "ten_dims": lambda: torch.ones((1,) * 10),
    "seventy_dims": lambda: torch.ones((1,) * 70),
    "no_elements": lambda: torch.ones(0),
    "no_rows": lambda: torch.ones(0, 3),
    "no_columns": lambda: torch.ones(2, 0),
    "doubles": lambda: _tensor((2, 3), torch.float64),
    "halves": lambda: _tensor((2, 3), torch.float16),
    "brains": lambda: _tensor((2, 3), torch.bfloat16),
    "ints": lambda: torch.arange(6).reshape(2, 3),
    "bytes_": lambda: _tensor((2, 3), torch.uint8),
    "shorts": lambda: _tensor((3,), torch.int16),
    "bools": lambda: torch.tensor([True, False, True]),
    "mask": lambda: torch.eye(3) > 0,
    "complexes": lambda: _tensor((2, 3), torch.complex64),
    "unsigned": lambda: _tensor((2, 3), torch.uint64),
    "nans": lambda: torch.full((2, 3), float("nan")),
    "far_indices": lambda: torch.tensor([-100, 100]),
    "leaf": lambda: torch.ones(2, 3, requires_grad=True),
    "inner": lambda: torch.ones(2, 3, requires_grad=True) * 2,
    "parameter": lambda: torch.nn.Parameter(torch.ones(2, 3)),
    "expanded": lambda: torch.ones(1, 3).expand(2, 3),
    "transposed": lambda: torch.ones(3, 2).t(),
    "strided": lambda: torch.arange(12.0)[::2],
    "meta": lambda: torch.ones(2, 3, device="meta"),
    "meta_scalar": lambda: torch.ones((), device="meta"),
}
"""Tensors: of odd kinds for where numbers belong, and plain ones to reach what lies behind the first check."""

NAMES: dict[str, Callable[[], Any]] = {**OTHERS, **TENSORS}
