"""ONNX Runtime as a contestant: inputs are bound once, so that a call copies nothing that it need not."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from rushlight.bench.peers import onnx_helper, onnxruntime
from rushlight.bench.programs import onnx_models
from rushlight.bench.programs.onnx_ops import DRAWINGS, Draw, Drawing
from rushlight.bench.records import Array, Case, Inputs, Work
from rushlight.bench.serving import Absent

OPSET = 23
IR_VERSION = 11


class Session:
    """A model ready to run on inputs that stay the same."""

    def __init__(self, model: bytes, options: object, inputs: Mapping[str, Array]) -> None:
        self.session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self.binding = self.session.io_binding()
        self.inputs = {name: onnxruntime.OrtValue.ortvalue_from_numpy(value) for name, value in inputs.items()}
        for name, value in self.inputs.items():
            self.binding.bind_ortvalue_input(name, value)
        for result in self.session.get_outputs():
            self.binding.bind_output(result.name, "cpu")

    def __call__(self) -> object:
        """The results."""
        self.session.run_with_iobinding(self.binding)
        return self.binding.get_outputs()


class OnnxRuntime:
    """A session for each case, on the CPU."""

    def __init__(self, threads: int) -> None:
        self.version: str = onnxruntime.__version__
        self.options = onnxruntime.SessionOptions()
        self.options.intra_op_num_threads = threads
        self.options.inter_op_num_threads = 1

    def prepare(self, case: Case, inputs: Inputs) -> Work:
        """See `Host`. A model's weights become constants of the graph."""
        if case.dtype == "bfloat16":
            raise Absent("ONNX Runtime has no bfloat16 on the CPU")
        if case.program in onnx_models.MODELS:
            draw, fed = onnx_models.MODELS[case.program](inputs, **case.options)
        elif case.program in DRAWINGS:
            draw, fed = partial(DRAWINGS[case.program], **case.options), inputs
        else:
            raise Absent("not written for ONNX Runtime, which does not train")
        return Session(model_of(draw, fed), self.options, fed)

    def arrays(self, result: object) -> list[Array]:
        """See `Host`."""
        assert isinstance(result, list | tuple)
        return [value.numpy().copy() for value in result]


def model_of(draw: Draw, inputs: Mapping[str, Array]) -> bytes:
    """A model whose inputs have these shapes and dtypes."""
    drawing = Drawing()
    results = draw(drawing, *inputs)
    names = [results] if isinstance(results, str) else list(results)
    fed = [
        onnx_helper.make_tensor_value_info(name, onnx_helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in inputs.items()
    ]
    given = [onnx_helper.make_empty_tensor_value_info(name) for name in names]
    graph = onnx_helper.make_graph(drawing.nodes, "case", fed, given, drawing.constants)
    opset = [onnx_helper.make_opsetid("", OPSET)]
    return onnx_helper.make_model(graph, opset_imports=opset, ir_version=IR_VERSION).SerializeToString()


def make_host(framework: str, mode: str, threads: int) -> OnnxRuntime:
    """The host."""
    return OnnxRuntime(threads)
