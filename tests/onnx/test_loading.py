"""Models are modules: they run, train and compile with open sizes; what is missing or malformed is an error."""

import sys
from pathlib import Path

import numpy as np
import pytest

import rushlight as rl

onnx = pytest.importorskip("onnx", reason="the extra onnx is not installed")
from onnx import helper, numpy_helper  # noqa: E402

sys.path.insert(0, str(Path(__file__).parent))
import models  # noqa: E402


def test_a_perceptron_computes_what_its_arrays_say(tmp_path: Path):
    message = models.mlp()
    module = rl.onnx.load(models.saved(message, tmp_path))
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in message.graph.initializer}
    x = np.random.default_rng(1).standard_normal((5, 8), dtype=np.float32)
    hidden = np.maximum(x @ arrays["first"] + arrays["bias"], 0)
    assert np.allclose(
        module(rl.from_numpy(x)).detach().numpy(), hidden @ arrays["second"].T + arrays["bias2"], atol=1e-5
    )
    assert dict(module.named_parameters()).keys() == arrays.keys()


def test_compiled_it_has_the_same_bits_for_all_sizes_in_one_graph(tmp_path: Path):
    module = rl.onnx.load(models.saved(models.mlp(), tmp_path))
    compiled = rl.compile(module, fullgraph=True)
    rl.compiler.reset()
    for batch in (4, 1, 0, 33):
        x = rl.randn(batch, 8)
        assert rl.equal(compiled(x), module(x))
    assert rl.compiler.graph_count() == 1


def test_it_trains(tmp_path: Path):
    module = rl.onnx.load(models.saved(models.mlp(), tmp_path))
    optimizer = rl.optim.SGD(module.parameters(), lr=0.01)
    x = rl.randn(16, 8)
    losses = []
    for _ in range(5):
        loss = module(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


def test_arguments_may_have_names(tmp_path: Path):
    module = rl.onnx.load(models.saved(models.mlp(), tmp_path))
    x = rl.randn(2, 8)
    assert rl.equal(module(x=x), module(x))
    for wrong in ((), (x, x)):
        with pytest.raises(rl.RushlightError) as report:
            module(*wrong)
        assert report.value.code == "A001"
    with pytest.raises(rl.RushlightError):
        module(x, z=x)


def flattening() -> "onnx.ModelProto":
    """[batch, rows, columns] as [batch, rows * columns], by arithmetic of shapes, with the sizes as a result."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["batch"], axis=0),
        helper.make_node("Gather", ["shape", "one"], ["rows"], axis=0),
        helper.make_node("Slice", ["shape", "two", "three"], ["columns"]),
        helper.make_node("Unsqueeze", ["batch", "axes"], ["first"]),
        helper.make_node("Mul", ["rows", "columns"], ["second"]),
        helper.make_node("Concat", ["first", "second"], ["target"], axis=0),
        helper.make_node("Relu", ["x"], ["positive"]),
        helper.make_node("Reshape", ["positive", "target"], ["y"]),
    ]
    constants = {"zero": np.int64(0), "one": np.int64(1), "two": [2], "three": [3], "axes": [0]}
    inputs = [models.value("x", "b", "r", "c")]
    outputs = [models.value("y", "b", "rc"), models.value("target", 2, kind=models.INT64)]
    return models.model(nodes, inputs, outputs, **constants)


def test_arithmetic_of_shapes_leaves_sizes_open(tmp_path: Path):
    module = rl.onnx.load(models.saved(flattening(), tmp_path))
    compiled = rl.compile(module, fullgraph=True)
    rl.compiler.reset()
    for shape in ((2, 3, 4), (5, 1, 7), (3, 2, 2)):
        y, target = compiled(rl.ones(shape))
        assert y.shape == (shape[0], shape[1] * shape[2]) and target.tolist() == list(y.shape)
    assert rl.compiler.graph_count() == 1


def test_all_missing_operators_are_named_before_anything_runs(tmp_path: Path):
    nodes = [
        helper.make_node("Foo", ["x"], ["a"], name="first", domain="my.domain"),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Bar", ["b"], ["y"], domain="my.domain"),
    ]
    message = models.model(nodes, [models.value("x", 2)], [models.value("y", 2)], domains=["my.domain"])
    with pytest.raises(rl.RushlightError) as report:
        rl.onnx.load(models.saved(message, tmp_path))
    text = str(report.value)
    assert report.value.code == "O001"
    assert "my.domain.Foo in 'first'" in text and "my.domain.Bar in the node of 'y'" in text


def test_functions_of_the_model_take_attributes(tmp_path: Path):
    body = [helper.make_node("LeakyRelu", ["a"], ["b"]), helper.make_node("Add", ["b", "b"], ["c"])]
    body[0].attribute.append(onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT))
    opsets = [helper.make_opsetid("", 21)]
    function = helper.make_function("mine", "twice", ["a"], ["c"], body, opsets, ["slope"])
    nodes = [
        helper.make_node("twice", ["x"], ["y"], domain="mine", slope=0.5),
        helper.make_node("twice", ["y"], ["z"], domain="mine", slope=0.25),
    ]
    message = models.model(
        nodes, [models.value("x", "n")], [models.value("z", "n")], functions=[function], domains=["mine"]
    )
    module = rl.onnx.load(models.saved(message, tmp_path))
    assert module(rl.tensor([-1.0, 2.0])).tolist() == [-0.5, 8.0]


def test_external_data_is_read_and_stays_in_the_folder(tmp_path: Path):
    message = models.mlp()
    path = tmp_path / "big.onnx"
    onnx.save(message, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    inner = rl.onnx.load(models.saved(models.mlp(), tmp_path))
    x = rl.randn(3, 8)
    assert (tmp_path / "weights.bin").stat().st_size > 700
    assert rl.equal(rl.onnx.load(path)(x), inner(x))
    read = onnx.load(path, load_external_data=False)
    for tensor in read.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = "../weights.bin"
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "model.onnx").write_bytes(read.SerializeToString())
    with pytest.raises(rl.RushlightError) as report:
        rl.onnx.load(tmp_path / "in" / "model.onnx")
    assert report.value.code == "P002"


def branching() -> "onnx.ModelProto":
    """x + 1 where its sum is positive, else -x."""
    out = [models.value("r", "n")]
    more = helper.make_graph([helper.make_node("Add", ["x", "step"], ["r"])], "more", [], out)
    less = helper.make_graph([helper.make_node("Neg", ["x"], ["r"])], "less", [], out)
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0),
        helper.make_node("Greater", ["s", "limit"], ["c"]),
        helper.make_node("If", ["c"], ["y"], then_branch=more, else_branch=less),
    ]
    constants = {"step": np.ones(1, np.float32), "limit": np.float32(0)}
    return models.model(nodes, [models.value("x", "n")], [models.value("y", "n")], **constants)


def test_branches_are_decided_by_values_eager_and_compiled(tmp_path: Path):
    module = rl.onnx.load(models.saved(branching(), tmp_path))
    compiled = rl.compile(module, fullgraph=True)
    for x in (rl.ones(3), -rl.ones(4), rl.tensor([3.0, -1.0])):
        wanted = x + 1 if x.sum() > 0 else -x
        assert rl.equal(module(x), wanted) and rl.equal(compiled(x), wanted)


def doubling() -> "onnx.ModelProto":
    """x doubled n times."""
    inputs = [models.value("i", kind=models.INT64), models.value("c", kind=9), models.value("v", "n")]
    body = [helper.make_node("Identity", ["c"], ["again"]), helper.make_node("Add", ["v", "v"], ["w"])]
    graph = helper.make_graph(body, "body", inputs, [models.value("again", kind=9), models.value("w", "n")])
    nodes = [helper.make_node("Loop", ["times", "", "x"], ["y"], body=graph)]
    inputs = [models.value("times", kind=models.INT64), models.value("x", "n")]
    return models.model(nodes, inputs, [models.value("y", "n")])


def test_loops_run_as_often_as_a_value_says_eager_and_compiled(tmp_path: Path):
    module = rl.onnx.load(models.saved(doubling(), tmp_path))
    compiled = rl.compile(module, fullgraph=True)
    for times, size in ((0, 2), (3, 2), (5, 4)):
        wanted = rl.ones(size) * 2**times
        assert rl.equal(module(rl.tensor(times), rl.ones(size)), wanted)
        assert rl.equal(compiled(rl.tensor(times), rl.ones(size)), wanted)


def test_a_missing_file_and_a_missing_library_are_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(rl.RushlightError) as report:
        rl.onnx.load(tmp_path / "none.onnx")
    assert report.value.code == "P001"
    path = models.saved(models.mlp(), tmp_path)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(rl.RushlightError) as report:
        rl.onnx.load(path)
    assert report.value.code == "N004"


def test_the_library_is_imported_by_the_first_call_alone():
    import subprocess

    program = "import sys, rushlight as rl; rl.onnx.operators(); assert 'onnx' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("name", ["FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ"])
@pytest.mark.parametrize("saturate", [0, 1])
def test_numbers_too_large_for_an_8_bit_float_saturate_if_asked(name: str, saturate: int, tmp_path: Path):
    kind = getattr(onnx.TensorProto, name)
    node = helper.make_node("Cast", ["x"], ["y"], to=kind, saturate=saturate)
    message = models.model([node], [models.value("x", 5)], [models.value("y", 5, kind=kind)])
    given = rl.tensor([1e6, float("inf"), -1e6, float("nan"), 1.5])
    found = rl.onnx.load(models.saved(message, tmp_path))(given).float()
    most = rl.finfo(getattr(rl, f"float8_{name[6:].lower()}")).max
    assert found[3].isnan()
    assert found[4] == 1.5
    if saturate:
        assert found[:3].tolist() == [most, most, -most]
    else:
        assert not found[:3].isfinite().any()


def test_a_range_has_the_dtype_of_its_start(tmp_path: Path):
    kind = onnx.TensorProto.BFLOAT16
    node = helper.make_node("Range", ["start", "limit", "delta"], ["y"])
    inputs = [models.value(name, kind=kind) for name in ("start", "limit", "delta")]
    message = models.model([node], inputs, [models.value("y", None, kind=kind)])
    found = rl.onnx.load(models.saved(message, tmp_path))(*[rl.tensor(x, dtype=rl.bfloat16) for x in (1.0, 5.0, 2.0)])
    assert found.dtype is rl.bfloat16
    assert found.tolist() == [1.0, 3.0]


def loss_of(kind: rl.dtype, ignored: int | None, folder: Path) -> rl.nn.Module:
    number = {rl.float16: onnx.TensorProto.FLOAT16, rl.float32: models.FLOAT}[kind]
    options = {} if ignored is None else {"ignore_index": ignored}
    node = helper.make_node("NegativeLogLikelihoodLoss", ["x", "t"], ["y"], reduction="mean", **options)
    inputs = [models.value("x", "n", 3, kind=number), models.value("t", "n", kind=models.INT64)]
    return rl.onnx.load(models.saved(models.model([node], inputs, [models.value("y", kind=number)]), folder))


def test_a_class_outside_of_the_range_is_an_error_unless_it_is_ignored(tmp_path: Path):
    """The standard: targets are in [0, C), or have the value of ignore_index."""
    x, target = rl.randn(4, 3), rl.tensor([0, -1, 2, 1])
    with pytest.raises(rl.RushlightError) as report:
        loss_of(rl.float32, None, tmp_path)(x, target)
    assert report.value.code == "I001"
    kept = -(x[0, 0] + x[2, 2] + x[3, 1]) / 3
    assert rl.allclose(loss_of(rl.float32, -1, tmp_path)(x, target), kept)


def test_a_mean_of_halves_is_rounded_once(tmp_path: Path):
    x, target = rl.randn(1000, 3).half(), rl.randint(0, 3, (1000,))
    exact = -np.take_along_axis(x.numpy().astype(np.float64), target.numpy()[:, None], 1).mean()
    assert loss_of(rl.float16, None, tmp_path)(x, target).numpy() == exact.astype(np.float16)
