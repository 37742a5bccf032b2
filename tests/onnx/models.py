"""Models in ONNX's format, made with the library `onnx`."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def value(name: str, *shape: int | str | None, kind: int = FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, list(shape))


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    opset: int = 21,
    functions: Sequence[onnx.FunctionProto] = (),
    domains: Sequence[str] = (),
    **constants: np.ndarray,
) -> onnx.ModelProto:
    named = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    graph = helper.make_graph(list(nodes), "graph", list(inputs), list(outputs), named)
    opsets = [helper.make_opsetid("", opset), *[helper.make_opsetid(domain, 1) for domain in domains]]
    return helper.make_model(graph, opset_imports=opsets, functions=list(functions), ir_version=10)


def saved(message: onnx.ModelProto, folder: Path) -> Path:
    path = folder / "model.onnx"
    onnx.save(message, path)
    return path


def mlp() -> onnx.ModelProto:
    """Two layers, [batch, 8] to [batch, 3], the second of weights that are transposed by the product."""
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("MatMul", ["x", "first"], ["a"], name="product"),
        helper.make_node("Add", ["a", "bias"], ["b"]),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("Gemm", ["c", "second", "bias2"], ["y"], transB=1),
    ]
    constants = {
        "first": rng.standard_normal((8, 16), dtype=np.float32),
        "bias": rng.standard_normal(16, dtype=np.float32),
        "second": rng.standard_normal((3, 16), dtype=np.float32),
        "bias2": rng.standard_normal(3, dtype=np.float32),
    }
    return model(nodes, [value("x", "batch", 8)], [value("y", "batch", 3)], **constants)
