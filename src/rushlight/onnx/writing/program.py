"""`export`: a program as a model."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from rushlight.capture.values import Container, Output, Template
from rushlight.export import ExportedProgram
from rushlight.ir.graph import Call
from rushlight.ir.type import TensorType
from rushlight.onnx.dtypes import NUMBERS
from rushlight.onnx.library import library
from rushlight.onnx.values import Value
from rushlight.onnx.writing import elementwise, layers, layout
from rushlight.onnx.writing.forms import missing_forms, write_graph
from rushlight.onnx.writing.writer import Constants, Writer, writes
from rushlight.support.errors import error, fail, require

FAMILIES = (elementwise, layers, layout)
OPSET, IR_VERSION = 21, 10


def export(program: ExportedProgram, path: str | os.PathLike[str]) -> None:
    """Write a program of `rushlight.export` as an ONNX model.

    Open sizes are names of dims, and what the program computes of them is arithmetic of shapes. O001 names all
    operators that have no form in ONNX, O003 what a model cannot hold.
    """
    hint = "write rl.onnx.export(rl.export.export(module, args), path)"
    require(isinstance(program, ExportedProgram), "A001", "onnx.export: this is no exported program", hint=hint)
    _require_forms(program)
    message = model_of(program)
    try:
        Path(path).write_bytes(message.SerializeToString())
    except OSError as cause:
        raise error("P003", f"onnx.export: {path} could not be written: {cause.strerror}") from cause


def _require_forms(program: ExportedProgram) -> None:
    require(
        not program.graph.mutations,
        "O003",
        "onnx.export: the program writes to tensors",
        hint="export model.eval(), and give results in place of writes",
    )
    kinds = sorted({source.kind for source in program.inputs} - {"argument", "parameter", "buffer", "constant"})
    require(not kinds, "O003", "onnx.export: the program takes more than tensors", inputs=kinds)
    missing = sorted(missing_forms(program.graph))
    require(
        not missing,
        "O001",
        f"onnx.export: there is no form of {', '.join(missing)}",
        hint="write the model with other operators",
    )


def model_of(program: ExportedProgram) -> Value:
    """The message of a program's model."""
    helper = library("onnx.helper")
    constants = Constants()
    write = Writer(constants, {}, {})
    tensors = {leaf: type_ for leaf, type_ in enumerate(program.opened.leaves) if isinstance(type_, TensorType)}
    # All tensors are inputs: one that no call reads may be there for its sizes.
    leaves = {leaf: constants.name(_argument_name(program, leaf)) for leaf in tensors}
    inputs = [_declared(leaves[leaf], type_) for leaf, type_ in tensors.items()]
    for source, parameter in zip(program.inputs, program.graph.parameters, strict=True):
        if source.kind == "argument":
            name = leaves[int(source.target)]
        else:
            name = constants.add(_state(program, source.kind, str(source.target)), str(source.target))
        write.values[id(parameter)] = name
    _bind_sizes(program, write, leaves)
    write_graph(write, program.graph)
    results = [program.graph.outputs[place] for place in _places(program.result)]
    outputs = [_declared(_result(write, call, number), call.type) for number, call in enumerate(results)]
    arrays = [library("onnx.numpy_helper").from_array(array, name) for name, array in constants.arrays.items()]
    graph = helper.make_graph(write.nodes, "program", inputs, outputs, arrays)
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION, producer_name="rushlight"
    )


def _argument_name(program: ExportedProgram, leaf: int) -> str:
    names = program.names
    return names[leaf] if len(names) == len(program.opened.leaves) else f"input_{leaf}"


def _state(program: ExportedProgram, kind: str, name: str) -> Value:
    tensors = program.state.constants if kind == "constant" else program.state.tensors
    return np.ascontiguousarray(tensors[name].detach().numpy())


def _declared(name: str, type_: TensorType) -> object:
    shape = [size if isinstance(size, int) else str(size) for size in type_.shape]
    return library("onnx.helper").make_tensor_value_info(name, NUMBERS[type_.dtype], shape)


def _bind_sizes(program: ExportedProgram, write: Writer, leaves: dict[int, str]) -> None:
    """Each open size, from the dim of an input that shows it."""
    for symbol, binding in program.opened.bindings.items():
        if binding.dim is None or binding.leaf not in leaves:
            continue
        size = write.node("Shape", leaves[binding.leaf], start=binding.dim, end=binding.dim + 1)
        if binding.offset:
            size = write.node("Sub", size, write.constant([binding.offset], np.int64))
        if binding.scale != 1:
            size = write.node("Div", size, write.constant([binding.scale], np.int64))
        write.sizes[str(symbol)] = size


def _places(result: Template) -> list[int]:
    """The graph's outputs, in the order of the result."""
    if isinstance(result, Output):
        return [result.place]
    if not isinstance(result, Container):
        fail("O003", f"onnx.export: a model has tensors as results, not {type(result).__name__}")
    return [place for part in result.items for place in _places(part)]


def _result(write: Writer, call: Call, number: int) -> str:
    name = write.constants.name(f"output_{number}")
    write.nodes.append(library("onnx.helper").make_node("Identity", [write.value(call)], [name]))
    return name


@writes("scan")
def scan(write: Writer, call: Call) -> object:
    """Scan, whose body sees the values around it."""
    helper = library("onnx.helper")
    carries, rows, others = call.operands
    body = call.attr("body").graph
    inner = write.inner()
    own = body.parameters[: len(carries) + len(rows)]
    inputs: list[object] = []
    for parameter in own:
        name = write.constants.name("item")
        inner.values[id(parameter)] = name
        inputs.append(_declared(name, parameter.type))
    for parameter, value in zip(body.parameters[len(own) :], others, strict=True):
        inner.values[id(parameter)] = write.value(value)
    write_graph(inner, body)
    names = [inner.node("Identity", inner.value(output)) for output in body.outputs]
    outputs = [_declared(name, output.type) for name, output in zip(names, body.outputs, strict=True)]
    graph = helper.make_graph(inner.nodes, "body", inputs, outputs)
    stacked = len(body.outputs) - len(carries)
    turn = int(bool(call.attr("reverse")))
    result = write.node(
        "Scan",
        *[write.value(value) for value in (*carries, *rows)],
        outputs=len(body.outputs),
        body=graph,
        num_scan_inputs=len(rows),
        scan_input_directions=[turn] * len(rows),
        scan_output_directions=[turn] * stacked,
    )
    return [result] if len(body.outputs) == 1 else result
