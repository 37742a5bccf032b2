"""Programs are written as models that ONNX Runtime runs, with open sizes; what has no form is an error."""

from pathlib import Path

import pytest

import rushlight as rl
from rushlight.bench.models import MODELS
from rushlight.export import Dim, export

onnx = pytest.importorskip("onnx", reason="the extra onnx is not installed")

# An example, and other sizes that the model must serve.
SIZES = {
    "gpt": ((2, 12), (1, 1), (3, 17)),
    "bert": ((2, 12), (3, 17)),
    "t5": ((2, 12, 7), (3, 9, 17)),
    "resnet": ((2, 16, 12), (3, 11, 21)),
    "mixer": ((2, 40, 36), (3, 17, 50)),
    "unet": ((2, 17, 22), (1, 12, 9)),
    "dlrm": ((4, 7, 3, 0), (6, 9, 5, 11)),
    "lstm": ((2, 6), (5, 17)),
}


def results(value: object) -> list[rl.Tensor]:
    return list(value) if isinstance(value, tuple) else [value]


def agree(given: rl.Tensor, wanted: rl.Tensor, bound: float) -> bool:
    difference = (given.detach() - wanted).abs().max() / wanted.abs().max()
    return given.shape == wanted.shape and given.dtype is wanted.dtype and difference.item() <= bound


@pytest.mark.peer
@pytest.mark.parametrize("name", MODELS)
def test_a_small_model_agrees_with_onnx_runtime_and_with_what_is_read_again(name: str, tmp_path: Path):
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    rl.manual_seed(0)
    kind, path = MODELS[name], tmp_path / "model.onnx"
    model = kind.make().eval()
    rl.onnx.export(export(model, kind.inputs(*SIZES[name][0])), path)
    onnx.checker.check_model(str(path), full_check=True)
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    again = rl.onnx.load(path)
    for sizes in SIZES[name]:
        inputs = kind.inputs(*sizes)
        with rl.no_grad():
            wanted = results(model(*inputs))
        fed = {item.name: tensor.numpy() for item, tensor in zip(session.get_inputs(), inputs, strict=True)}
        theirs = [rl.from_numpy(array) for array in session.run(None, fed)]
        for given in (theirs, results(again(*inputs))):
            assert all(agree(a, b, 1e-5) for a, b in zip(given, wanted, strict=True))


def written(function: object, example: tuple[object, ...], folder: Path, **options: object) -> "onnx.ModelProto":
    rl.onnx.export(export(function, example, **options), folder / "model.onnx")
    return onnx.load(folder / "model.onnx")


def test_open_sizes_are_names_of_dims(tmp_path: Path):
    layer = rl.nn.Linear(4, 2)
    message = written(layer, (rl.ones(3, 4),), tmp_path, dynamic_shapes={"input": {0: Dim("batch")}})
    (given,), (result,) = message.graph.input, message.graph.output
    assert [dim.dim_param or dim.dim_value for dim in given.type.tensor_type.shape.dim] == ["batch", 4]
    assert [dim.dim_param or dim.dim_value for dim in result.type.tensor_type.shape.dim] == ["batch", 2]
    assert {tensor.name for tensor in message.graph.initializer} >= {"weight", "bias"}


def test_arithmetic_of_sizes_serves_all_sizes(tmp_path: Path):
    def pairs(x: rl.Tensor) -> rl.Tensor:
        half = x.shape[0] // 2
        return x[: 2 * half].reshape(half, 2 * x.shape[1]) + rl.arange(half).unsqueeze(1)

    written(pairs, (rl.ones(5, 3),), tmp_path)
    again = rl.onnx.load(tmp_path / "model.onnx")
    for shape in ((5, 3), (8, 2), (2, 7)):
        x = rl.randn(shape)
        assert rl.equal(again(x), pairs(x))


def test_operators_without_a_form_are_all_named(tmp_path: Path):
    with pytest.raises(rl.RushlightError) as report:
        written(lambda x: rl.linalg.eigvalsh(rl.digamma(x)), (rl.eye(3),), tmp_path)
    assert report.value.code == "O001" and "digamma" in str(report.value) and "eigvalsh" in str(report.value)
    assert not list(tmp_path.iterdir())


def test_what_a_model_cannot_hold_is_an_error(tmp_path: Path):
    for function, example in (
        (lambda x: x.add_(1), (rl.ones(3),)),
        (lambda x: x + rl.rand(3), (rl.ones(3),)),
        (lambda x, y: x * y, (rl.ones(3), 0.5)),
        (lambda x: (x + 1, x.shape[0]), (rl.ones(3),)),
    ):
        with pytest.raises(rl.RushlightError) as report:
            written(function, example, tmp_path)
        assert report.value.code == "O003", str(report.value)


def test_a_module_is_exported_first(tmp_path: Path):
    with pytest.raises(rl.RushlightError) as report:
        rl.onnx.export(rl.nn.Linear(2, 3), tmp_path / "model.onnx")
    assert report.value.code == "A001" and "rl.export.export(module, args)" in str(report.value)
