"""Reads a model's file into records, with its external data."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from rushlight.onnx.library import library
from rushlight.onnx.model import Declared, Function, Graph, Model, Node, OperatorName, Reference
from rushlight.onnx.values import Numbers
from rushlight.support.errors import RushlightError, error, fail, require

T = TypeVar("T")
_DEEPEST = 50  # graphs within graphs


def read(path: Path) -> Model:
    """The model of a file. P001 where there is none, P002 where it is malformed."""
    require(path.is_file(), "P001", f"onnx.load: there is no file {path}")
    data = path.read_bytes()
    return _guarded(lambda: _Reader(path.parent).model(_parsed(data)), path)


def validate(path: Path) -> None:
    """Ask the library whether a model is well-formed. P002 where it is not."""
    _guarded(lambda: library("onnx.checker").check_model(str(path)), path)


def _parsed(data: bytes) -> Any:
    message = library().ModelProto()
    message.ParseFromString(data)
    return message


def _guarded(act: Callable[[], T], path: Path) -> T:
    try:
        return act()
    except RushlightError:
        raise
    except Exception as cause:  # what the library raises has no class of its own
        first = (_text(cause).strip().splitlines() or [type(cause).__name__])[0]
        raise error("P002", f"onnx.load: {path} is malformed: {first}") from cause


def _text(cause: Exception) -> str:
    """What an exception says; the checker's are bytes where the file's names are no text."""
    (message,) = cause.args[:1] or ("",)
    return message.decode("utf-8", "replace") if isinstance(message, bytes) else str(message)


class _Reader:
    """Turns the library's messages into records. External data is looked for in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.depth = 0
        self.convert: dict[int, Callable[[Any], object]] = {
            1: lambda a: float(a.f),
            2: lambda a: int(a.i),
            3: lambda a: a.s.decode("utf-8", "replace"),
            4: lambda a: self.array(a.t),
            5: lambda a: self.graph(a.g),
            6: lambda a: tuple(map(float, a.floats)),
            7: lambda a: tuple(map(int, a.ints)),
            8: lambda a: tuple([text.decode("utf-8", "replace") for text in a.strings]),
            9: lambda a: tuple([self.array(tensor) for tensor in a.tensors]),
            10: lambda a: tuple([self.graph(graph) for graph in a.graphs]),
            11: lambda a: self.dense(a.sparse_tensor),
            13: lambda a: str(a.tp).strip(),
        }

    def model(self, message: Any) -> Model:
        """The model of a message."""
        require(message.HasField("graph"), "P002", "onnx.load: the file has no graph")
        functions = {OperatorName(_domain(f.domain), f.name): self.function(f) for f in message.functions}
        return Model(self.graph(message.graph), _versions(message.opset_import), functions)

    def graph(self, message: Any) -> Graph:
        """The graph of a message."""
        self.depth += 1
        require(self.depth <= _DEEPEST, "P002", f"onnx.load: graphs lie in each other more than {_DEEPEST} deep")
        constants = {tensor.name: self.array(tensor) for tensor in message.initializer}
        constants |= {tensor.values.name: self.dense(tensor) for tensor in message.sparse_initializer}
        inputs = tuple([_declared(value) for value in message.input if value.name not in constants])
        nodes = tuple([self.node(node) for node in message.node])
        self.depth -= 1
        return Graph(message.name, inputs, tuple([value.name for value in message.output]), constants, nodes)

    def function(self, message: Any) -> Function:
        """The function of a message."""
        defaults = {a.name: self.attribute(a) for a in message.attribute_proto}
        nodes = tuple([self.node(node) for node in message.node])
        names = tuple(message.attribute), tuple(message.input), tuple(message.output)
        return Function(names[1], names[2], names[0], defaults, nodes, _versions(message.opset_import))

    def node(self, message: Any) -> Node:
        """The node of a message."""
        attributes = {a.name: self.attribute(a) for a in message.attribute}
        operator = OperatorName(_domain(message.domain), _name(message.op_type))
        names = tuple(map(_name, message.input)), tuple(map(_name, message.output))
        return Node(_name(message.name), operator, *names, attributes)

    def attribute(self, message: Any) -> object:
        """The value of an attribute."""
        if message.ref_attr_name:
            return Reference(message.ref_attr_name)
        convert = self.convert.get(message.type)
        if convert is None:
            fail("P002", f"onnx.load: the attribute '{message.name}' has an unknown type")
        return convert(message)

    def array(self, message: Any) -> Numbers:
        """The elements of a tensor, read from its own file where they are external."""
        if message.data_location == message.EXTERNAL:
            library("onnx.external_data_helper").load_external_data_for_tensor(message, str(self.folder))
            message.data_location = message.DEFAULT
        return library("onnx.numpy_helper").to_array(message)

    def dense(self, message: Any) -> Numbers:
        """A sparse tensor with its zeros."""
        values, indices = self.array(message.values), self.array(message.indices)
        require(0 <= math.prod(message.dims) <= 1 << 28, "P002", "onnx.load: a sparse tensor is too large")
        filled = np.zeros(tuple(message.dims), values.dtype)
        filled[tuple(indices.T) if indices.ndim == 2 else np.unravel_index(indices, filled.shape)] = values
        return filled


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else _name(name)


def _name(value: object) -> str:
    """A name, which the library gives as bytes where it is no text."""
    if not isinstance(value, str):
        fail("P002", "onnx.load: a name in the file is no text")
    return value


def _versions(imports: Any) -> dict[str, int]:
    return {_domain(item.domain): int(item.version) for item in imports}


def _declared(message: Any) -> Declared:
    kind = message.type
    if not kind.HasField("tensor_type"):
        return Declared(message.name, None, None)
    tensor = kind.tensor_type
    shape = None
    if tensor.HasField("shape"):
        shape = tuple(
            [dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None for dim in tensor.shape.dim]
        )
    return Declared(message.name, shape, tensor.elem_type)
