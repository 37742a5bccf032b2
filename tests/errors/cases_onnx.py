"""Errors of ONNX's models."""

import tempfile
from pathlib import Path

import rushlight as rl
from errorcases import triggers
from rushlight.export import export
from rushlight.onnx import OnnxModule
from rushlight.onnx.model import Declared, Graph, Model, Node, OperatorName


def model_of(*nodes: Node) -> Model:
    graph = Graph("g", (Declared("x", None, 1),), (nodes[-1].outputs[0],), {}, nodes)
    return Model(graph, {"": 21}, {})


@triggers("O001")
def operators_are_missing():
    first = Node("first", OperatorName("", "Relu"), ("x",), ("a",), {})
    second = Node("second", OperatorName("", "Reluu"), ("a",), ("b",), {})
    OnnxModule(model_of(first, second, Node("", OperatorName("my.domain", "Relu"), ("b",), ("y",), {})))


@triggers("O002")
def attribute_that_no_rule_takes():
    OnnxModule(model_of(Node("act", OperatorName("", "Relu"), ("x",), ("y",), {"alpha": 1.0})))


@triggers("O003")
def program_that_writes_to_its_argument():
    with tempfile.TemporaryDirectory() as folder:
        rl.onnx.export(export(lambda x: x.add_(1), (rl.ones(3),)), Path(folder) / "model.onnx")
