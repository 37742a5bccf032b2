"""Programs as data: inputs with their memory, and statements in PyTorch's words.

A statement is source text over `torch`, `F` (`torch.nn.functional`) and values `v0`, `v1`, ...: the first values are
the inputs, and each statement may assign more (`v3 = v0 + v1`, `v4, v5 = v3.sort(dim=0)`) or only write
(`v3.add_(1)`). The same program therefore runs with `torch` bound to PyTorch or to Rushlight, and prints as a script.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from rushlight.support.frozen import frozen

Array = NDArray[Any]

DTYPES: dict[str, np.dtype[Any]] = {
    "float16": np.dtype("float16"),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float32": np.dtype("float32"),
    "float64": np.dtype("float64"),
    "uint8": np.dtype("uint8"),
    "int8": np.dtype("int8"),
    "int16": np.dtype("int16"),
    "int32": np.dtype("int32"),
    "int64": np.dtype("int64"),
    "bool": np.dtype("bool"),
    "complex64": np.dtype("complex64"),
    "complex128": np.dtype("complex128"),
}
"""The dtypes of programs by PyTorch's names."""

FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("uint8", "int8", "int16", "int32", "int64")
COMPLEX = ("complex64", "complex128")

NAME = re.compile(r"\bv\d+\b")
"""The name of a value in a statement."""


@frozen(eq=False)
class Input:
    """A strided view of a buffer: `values` is the 1-d array of the whole storage; strides and offset count elements."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    values: Array
    requires_grad: bool = False

    @property
    def array(self) -> Array:
        """The elements that the tensor has, as a new array."""
        step = self.values.itemsize
        strides = [stride * step for stride in self.strides]
        window = self.values[self.offset :] if self.values.size > self.offset else self.values
        return np.lib.stride_tricks.as_strided(window, self.shape, strides).copy()

    def source(self) -> str:
        """PyTorch's text that makes the tensor; a dense one needs no `as_strided`."""
        dense = self.strides == row_major(self.shape) and not self.offset and self.values.size == _count(self.shape)
        made = f"torch.tensor({_listed(self.array if dense else self.values)}, dtype=torch.{self.dtype})"
        if dense and not _count(self.shape):
            made = f"torch.empty({self.shape}, dtype=torch.{self.dtype})"
        if not dense:
            made += f".as_strided({self.shape}, {self.strides}, {self.offset})"
        return made + ".requires_grad_()" * self.requires_grad


@frozen(eq=False)
class Program:
    """Inputs, statements in order, and the names whose values are compared.

    Inputs with one array as `values` share their memory.
    """

    seed: int
    number: int
    inputs: tuple[Input, ...]
    statements: tuple[str, ...]
    results: tuple[str, ...]

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the inputs."""
        return tuple([f"v{index}" for index in range(len(self.inputs))])

    def body(self) -> str:
        """The program as text of a function `program` of its inputs that returns a tuple of its results."""
        lines = [*self.statements, f"return ({''.join([f'{name}, ' for name in self.results])})"]
        return f"def program({', '.join(self.parameters)}):\n" + "".join([f"    {line}\n" for line in lines])

    def script(self) -> str:
        """The program as a script for PyTorch, or for Rushlight with its first line changed."""
        owners: dict[int, str] = {}
        made: list[str] = []
        for name, given in zip(self.parameters, self.inputs, strict=True):
            owner = owners.setdefault(id(given.values), name)
            shown = f"{owner}.as_strided({given.shape}, {given.strides}, {given.offset})"
            made.append(f"{name} = {given.source() if owner == name else shown}")
        head = [f"# seed {self.seed}, number {self.number}", "import torch, torch.nn.functional as F", *made]
        return "\n".join([*head, *self.statements, *[f"print({name})" for name in self.results]])


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a dense tensor of this shape, in elements; PyTorch's for sizes of 0 and 1."""
    strides = [1] * len(shape)
    for dim in range(len(shape) - 2, -1, -1):
        strides[dim] = strides[dim + 1] * max(shape[dim + 1], 1)
    return tuple(strides)


def dense_input(array: Array, dtype: str, requires_grad: bool = False) -> Input:
    """An input that holds an array's elements row by row."""
    values = np.ascontiguousarray(array, DTYPES[dtype]).reshape(-1)
    return Input(dtype, array.shape, row_major(array.shape), 0, values, requires_grad)


def targets(statement: str) -> tuple[str, ...]:
    """The names that a statement assigns."""
    left, equals, _ = statement.partition(" = ")
    return tuple(NAME.findall(left)) if equals and NAME.match(left) and "[" not in left else ()


def operands(statement: str) -> tuple[str, ...]:
    """The names that a statement reads, each once."""
    assigned = targets(statement)
    text = statement.partition(" = ")[2] if assigned else statement
    return tuple(dict.fromkeys(NAME.findall(text)))


def _count(shape: Sequence[int]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def _listed(array: Array) -> str:
    text = (
        repr(array.astype(np.complex128 if array.dtype.kind == "c" else np.float64).tolist())
        if (array.dtype.kind in "cfV")
        else repr(array.tolist())
    )
    return re.sub(r"(?<![\w.])(nan|inf)\b(?!j)", r'float("\1")', text)
