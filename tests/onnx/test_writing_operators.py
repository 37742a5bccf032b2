"""Each operator with a form in ONNX, on its samples and in integers and bools, gives what ONNX Runtime gives."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import rushlight as rl
from rushlight.eager.pytree import map_tree
from rushlight.export import Dim, export
from rushlight.onnx.writing.writer import RULES
from rushlight.ops.record import OPERATORS, Sample

onnx = pytest.importorskip("onnx", reason="the extra onnx is not installed")
runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
pytestmark = pytest.mark.peer

TENSOR = "the next tensor"
WITHOUT_SAMPLES = {"flatten_view", "relayout", "scan"}


def integers(array: np.ndarray) -> np.ndarray:
    """Whole numbers of both signs without 0, in place of floats."""
    size = np.where(np.abs(array) > 1.5, 3, 1)  # few are large: products stay within 64 bits
    return np.where(array < 0, -size, size).astype(np.int32) if array.dtype == np.float32 else array


def bools(array: np.ndarray) -> np.ndarray:
    return array > 0 if array.dtype == np.float32 else array


def plain(array: np.ndarray) -> np.ndarray:
    return array


def function_of(name: str, sample: Sample, kind: Callable[[np.ndarray], np.ndarray]) -> tuple[object, list[rl.Tensor]]:
    """A function of a sample's tensors alone, and these."""
    tensors: list[rl.Tensor] = []

    def marked(value: object) -> object:
        if not isinstance(value, np.ndarray):
            return value
        tensors.append(rl.from_numpy(np.ascontiguousarray(kind(value))))
        return TENSOR

    call = map_tree(marked, (sample.args, dict(sample.kwargs)))

    def function(*given: rl.Tensor) -> object:
        rest = iter(given)

        def put(value: object) -> object:
            return next(rest) if isinstance(value, str) and value == TENSOR else value

        args, kwargs = map_tree(put, call)
        return getattr(rl.ops.aten, name)(*args, **kwargs)

    return function, tensors


def answers(name: str, kind: Callable[[np.ndarray], np.ndarray], folder: Path) -> Iterator[tuple[object, object]]:
    """Our results and ONNX Runtime's, for what both take."""
    for sample in OPERATORS[name].samples_rule(np.random.default_rng(0)):
        function, tensors = function_of(name, sample, kind)
        try:
            ours = function(*tensors)
            rl.onnx.export(export(function, tuple(tensors)), folder / "model.onnx")
        except (rl.RushlightError, AssertionError):
            continue
        results = ours if isinstance(ours, (tuple, list)) else [ours]
        if any(result.dtype is rl.bfloat16 for result in results):
            continue  # ONNX Runtime gives numpy's arrays, which have no such dtype
        given = {f"given_{place}": tensor.numpy() for place, tensor in enumerate(tensors)}
        try:
            session = runtime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
            theirs = session.run(None, given)
        except Exception as error:
            # Kernels of some dtypes are missing there; others no operator of ONNX takes.
            missing = "NOT_IMPLEMENTED" in str(error) or (kind is not plain and "Type Error: Type" in str(error))
            assert missing, (name, sample, error)
            continue
        yield from zip([result.detach() for result in results], theirs, strict=True)


@pytest.mark.generated
@pytest.mark.parametrize("name", sorted(RULES.keys() - WITHOUT_SAMPLES))
def test_an_operator_means_in_a_model_what_it_means_here(name: str, tmp_path: Path):
    compared = 0
    for kind in (plain, integers, bools):
        for ours, theirs in answers(name, kind, tmp_path):
            wanted = ours.numpy()
            assert (theirs.shape, theirs.dtype) == (wanted.shape, wanted.dtype), kind
            np.testing.assert_allclose(theirs, wanted, rtol=1e-2 if wanted.dtype == np.float16 else 1e-4, atol=1e-5)
            compared += 1
    assert compared


SIZES: dict[str, Callable[[int, int], int]] = {
    "-(-n // 4)": lambda n, m: -(-n // 4),
    "(n - 7) // 3": lambda n, m: (n - 7) // 3,
    "(3 - n) // 2": lambda n, m: (3 - n) // 2,
    "(n - 7) % 3": lambda n, m: (n - 7) % 3,
    "(2 - n) % 5": lambda n, m: (2 - n) % 5,
    "(n - m) // 3": lambda n, m: (n - m) // 3,
    "-((m - n) // 2)": lambda n, m: -((m - n) // 2),
    "(n - 2*m) // m": lambda n, m: (n - 2 * m) // m,
    "(n - 9) % m": lambda n, m: (n - 9) % m,
    "(n - 6)//2//3 * m": lambda n, m: (n - 6) // 2 // 3 * m,
    "max and min": lambda n, m: rl.sym_max(n - 6, 2 - m) // 2 + rl.sym_min(n, 4) % 3,
    "n // 4": lambda n, m: n // 4,
}


@pytest.mark.parametrize("name", SIZES)
def test_sizes_are_computed_as_python_computes_them(name: str, tmp_path: Path):
    expression, lift = SIZES[name], 100

    def function(x: rl.Tensor) -> rl.Tensor:
        return x.new_zeros(expression(x.shape[0], x.shape[1]) + lift)

    dims = ({0: Dim("n", max=20), 1: Dim("m", min=1, max=20)},)
    rl.onnx.export(export(function, (rl.ones(5, 3),), dynamic_shapes=dims), tmp_path / "model.onnx")
    session = runtime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    again = rl.compile(rl.onnx.load(tmp_path / "model.onnx"), fullgraph=True)
    before = rl.compiler.graph_count()
    for n in (5, 2, 3, 4, 6, 7, 8, 13, 20):
        for m in (3, 2, 5, 11):
            x = rl.ones(n, m)
            (theirs,) = session.run(None, {"x": x.numpy()})
            assert len(theirs) - lift == expression(n, m), (n, m)
            assert again(x).shape[0] - lift == expression(n, m), (n, m)
    assert rl.compiler.graph_count() - before == 1


def test_a_model_divides_sizes_towards_zero(tmp_path: Path):
    """Div of ONNX rounds towards zero, whatever the sign of what a loaded model computes of sizes."""
    helper = onnx.helper
    value = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Shape", ["x"], ["n"]),
        helper.make_node("Sub", ["n", "nine"], ["less"]),
        helper.make_node("Div", ["less", "four"], ["part"]),
        helper.make_node("Add", ["part", "nine"], ["y"]),
    ]
    kind = onnx.TensorProto
    constants = [helper.make_tensor(name, kind.INT64, [1], [number]) for name, number in (("nine", 9), ("four", 4))]
    graph = helper.make_graph(nodes, "graph", [value("x", kind.FLOAT, ["n"])], [value("y", kind.INT64, [1])], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), tmp_path / "m.onnx")
    session = runtime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    loaded = rl.onnx.load(tmp_path / "m.onnx")
    compiled = rl.compile(loaded)
    for n in (5, 2, 4, 9, 13, 0):
        x = rl.ones(n)
        (wanted,) = session.run(None, {"x": x.numpy()})
        assert loaded(x).tolist() == compiled(x).tolist() == wanted.tolist() == [9 + int((n - 9) / 4)]


@pytest.mark.parametrize("numbers", [(rl.int32, rl.int64), (rl.float32, rl.float64), (rl.int64, rl.float32)], ids=str)
def test_a_tensor_without_dims_ranks_lower_in_comparisons(numbers: tuple[rl.dtype, rl.dtype], tmp_path: Path):
    dims, alone = numbers
    x = rl.tensor([1, 2, 3], dtype=dims)
    y = rl.tensor(2, dtype=alone)
    rl.onnx.export(export(lambda x, y: x < y, (x, y)), tmp_path / "model.onnx")
    session = runtime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    assert session.run(None, {"x": x.numpy(), "y": y.numpy()})[0].tolist() == [True, False, False]
    casts = [node for node in onnx.load(tmp_path / "model.onnx").graph.node if node.op_type == "Cast"]
    wide = rl.result_type(x, y)
    assert [node.attribute[0].i for node in casts] == [
        onnx.helper.np_dtype_to_tensor_dtype(rl.zeros(1, dtype=wide).numpy().dtype)
    ] * sum(kind is not wide for kind in numbers)


def test_floor_of_a_rounded_quotient_is_that_of_the_remainder(tmp_path: Path):
    x = rl.tensor([1.0, -1.0, 0.3, 7.5, -7.5, 5.0, 0.0, float("inf")])
    y = rl.tensor([0.1, 0.1, 0.1, -2.5, 2.5, 0.0, 3.0, 2.0])

    def function(x: rl.Tensor, y: rl.Tensor) -> tuple[rl.Tensor, ...]:
        return rl.div(x, y, rounding_mode="floor"), x // y, x % y, rl.fmod(x, y), rl.div(x, y, rounding_mode="trunc")

    rl.onnx.export(export(function, (x, y)), tmp_path / "model.onnx")
    session = runtime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    for theirs, ours in zip(session.run(None, {"x": x.numpy(), "y": y.numpy()}), function(x, y), strict=True):
        np.testing.assert_array_equal(theirs, ours.numpy())


def test_an_argument_that_is_there_for_its_size_is_an_input(tmp_path: Path):
    def function(x: rl.Tensor, y: rl.Tensor, z: rl.Tensor) -> rl.Tensor:
        return x.expand(y.shape[0], -1) + z

    example = rl.ones(1, 3), rl.ones(4, 2), rl.ones(3)
    rl.onnx.export(export(function, example), tmp_path / "model.onnx")
    session = runtime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    assert [given.name for given in session.get_inputs()] == ["x", "y", "z"]
    x, y, z = rl.ones(1, 3), rl.ones(6, 2), rl.arange(3.0)
    (theirs,) = session.run(None, {"x": x.numpy(), "y": y.numpy(), "z": z.numpy()})
    assert theirs.tolist() == function(x, y, z).tolist()
