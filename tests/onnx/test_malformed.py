"""Mutated files give a registered error, or a model that runs or says why not."""

import random
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import rushlight as rl
from rushlight.bench.models import MODELS

pytest.importorskip("onnx", reason="the extra onnx is not installed")
sys.path.insert(0, str(Path(__file__).parent))
import models
import onnx


def mutated(data: bytes, draw: random.Random) -> bytes:
    if draw.randrange(3) == 0:
        return data[: draw.randrange(len(data))]
    changed = bytearray(data)
    for _ in range(draw.randrange(1, 6)):
        # Structure is at both ends, elements of tensors between them.
        places = (range(200), range(len(data) - 120, len(data)), range(len(data)))
        changed[draw.choice(draw.choice(places))] = draw.randrange(256)
    return bytes(changed)


def test_a_thousand_mutated_files_give_registered_errors(tmp_path: Path):
    data, draw, path = models.mlp().SerializeToString(), random.Random(7), tmp_path / "model.onnx"
    codes: set[str] = set()
    for _ in range(1000):
        path.write_bytes(mutated(data, draw))
        try:
            rl.onnx.load(path)(rl.ones(2, 8))
        except rl.RushlightError as error:
            codes.add(error.code)
    assert {"O001", "P002"} <= codes


def other_operator(graph: onnx.GraphProto, node: onnx.NodeProto, draw: random.Random) -> None:
    node.op_type = draw.choice(graph.node).op_type


def other_operand(graph: onnx.GraphProto, node: onnx.NodeProto, draw: random.Random) -> None:
    if node.input:
        names = [name for one in graph.node for name in (*one.input, *one.output)]
        node.input[draw.randrange(len(node.input))] = draw.choice(names)


def fewer_operands(graph: onnx.GraphProto, node: onnx.NodeProto, draw: random.Random) -> None:
    if node.input:
        del node.input[draw.randrange(len(node.input))]


def no_node(graph: onnx.GraphProto, node: onnx.NodeProto, draw: random.Random) -> None:
    graph.node.remove(node)


def other_attribute(graph: onnx.GraphProto, node: onnx.NodeProto, draw: random.Random) -> None:
    if not node.attribute:
        return
    attribute = draw.choice(node.attribute)
    integer = draw.choice([-1, 0, 1, 2, 5, 1000, -(2**31), 2**62])
    if attribute.type == onnx.AttributeProto.INT:
        attribute.i = integer
    elif attribute.type == onnx.AttributeProto.INTS and attribute.ints:
        attribute.ints[draw.randrange(len(attribute.ints))] = integer
    elif attribute.type == onnx.AttributeProto.FLOAT:
        attribute.f = draw.choice([float("nan"), -1.0, 0.0, 1e30])
    elif attribute.type == onnx.AttributeProto.STRING:
        attribute.s = b"x"
    else:
        node.attribute.remove(attribute)


def other_dims(graph: onnx.GraphProto, node: onnx.NodeProto, draw: random.Random) -> None:
    tensor = draw.choice(graph.initializer)
    if tensor.dims:
        tensor.dims[draw.randrange(len(tensor.dims))] = draw.choice([-1, 0, 1, 3, 10**6, 2**40])
    else:
        tensor.dims.append(draw.choice([0, 2]))


def other_dtype(graph: onnx.GraphProto, node: onnx.NodeProto, draw: random.Random) -> None:
    draw.choice(graph.initializer).data_type = draw.randrange(24)


def other_integer(graph: onnx.GraphProto, node: onnx.NodeProto, draw: random.Random) -> None:
    whole = [tensor for tensor in graph.initializer if tensor.data_type == onnx.TensorProto.INT64 and tensor.raw_data]
    if whole:
        tensor = draw.choice(whole)
        at = 8 * draw.randrange(len(tensor.raw_data) // 8)
        drawn = draw.choice([-1, 0, 1, 2, 7, 100_000, -(2**63) + 1]).to_bytes(8, "little", signed=True)
        tensor.raw_data = tensor.raw_data[:at] + drawn + tensor.raw_data[at + 8 :]


CHANGES: tuple[Callable[[onnx.GraphProto, onnx.NodeProto, random.Random], None], ...] = (
    other_operator,
    other_operand,
    fewer_operands,
    no_node,
    other_attribute,
    other_dims,
    other_dtype,
    other_integer,
)


@pytest.mark.generated
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", MODELS)
def test_models_whose_nodes_are_changed_run_or_give_registered_errors(name: str, seed: int, tmp_path: Path):
    kind, draw, path = MODELS[name], random.Random(seed), tmp_path / "model.onnx"
    inputs = kind.inputs(*[max(extent.least, 2) for extent in kind.sizes.values()], 0)
    rl.onnx.export(rl.export.export(kind.make().eval(), inputs), path)
    written = path.read_bytes()
    for _ in range(10):
        message = onnx.ModelProto.FromString(written)
        for _ in range(draw.randrange(1, 3)):
            draw.choice(CHANGES)(message.graph, draw.choice(message.graph.node), draw)
        path.write_bytes(message.SerializeToString())
        with suppress(rl.RushlightError):  # anything else fails the test
            rl.onnx.load(path)(*inputs)
