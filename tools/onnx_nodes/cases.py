"""What we and ONNX Runtime make of a node test."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import rushlight as rl
from tools.onnx_nodes.agreeing import agree, array_of


def operator_of(case: Any) -> str:
    """The operator of a test: that of its only node, or the one that its name says was expanded."""
    nodes = case.model.graph.node
    return f"{nodes[0].domain}.{nodes[0].op_type}".lstrip(".") if len(nodes) == 1 else "functions and several nodes"


def outcome(case: Any) -> str:
    """`pass`, `differs`, or the code of the error and its message."""
    try:
        with TemporaryDirectory() as folder:
            path = Path(folder) / "model.onnx"
            path.write_bytes(case.model.SerializeToString())
            module = rl.onnx.load(path).eval()
        sets = [(array_of(list(inputs)), array_of(list(outputs))) for inputs, outputs in case.data_sets]
        good = all(agree(_results(module(*[_given(x) for x in inputs])), outputs, case) for inputs, outputs in sets)
    except rl.RushlightError as cause:
        return f"{cause.code}: {str(cause).splitlines()[0]}"
    except Exception as cause:  # noqa: BLE001 - any other error is a finding, and a row
        return f"{type(cause).__name__}: {(str(cause).splitlines() or [''])[0]}"
    return "pass" if good else "differs"


def _given(value: Any) -> Any:
    if isinstance(value, list):
        return [_given(part) for part in value]
    return value if value is None or value.dtype.kind in "OSU" else rl.from_numpy(np.array(value))


def _results(value: Any) -> list[Any]:
    parts: Sequence[Any] = value if isinstance(value, tuple) else [value]
    return [_array(part) for part in parts]


def _array(value: Any) -> Any:
    if isinstance(value, list):
        return [_array(part) for part in value]
    return value.detach().numpy() if isinstance(value, rl.Tensor) else value


def peer_outcome(case: Any) -> str:
    """What ONNX Runtime makes of the test."""
    runtime: Any = importlib.import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = runtime.InferenceSession(case.model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        names = [item.name for item in session.get_inputs()]
        for inputs, outputs in case.data_sets:
            results = session.run(None, dict(zip(names, array_of(list(inputs)), strict=False)))
            if not agree(list(results), array_of(list(outputs)), case):
                return "differs"
    except Exception as cause:  # noqa: BLE001 - the peer's errors are its own
        return f"error: {(str(cause).splitlines() or [''])[0]}"
    return "pass"
