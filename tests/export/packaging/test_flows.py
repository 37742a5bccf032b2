"""Packages with branches and loops: the bits of eager code, whose control flow is Python's; checks and memory."""

import ctypes
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import rushlight as rl
from rushlight.build.flows import make_flow
from rushlight.export import Dim, ExportedProgram, export, package
from rushlight.export.packaging.checking import Run
from rushlight.ir.flow.frame import Branches, ScanLoop, WhileLoop

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "packages" / "rushlight-runtime" / "src"))

import rushlight_runtime  # noqa: E402

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="libraries are written for Linux alone")


def branch(x, y):
    yes, no = (lambda x, y: (x.sin() @ y, x * 2)), (lambda x, y: (x.cos() @ y, x))
    made, given = rl.cond(x.sum() > 0, yes, no, (x, y))
    return made, given, given.sum(0)


def wait(x):
    def more(i, x):
        return (i < 7) & (x.abs().max() < 50)

    i, y = rl.while_loop(more, lambda i, x: (i + 1, x * 1.5 + x.roll(1, 0)), (rl.tensor(0), x))
    return i, y, x


def running(x):
    def step(carried, row):
        carried = carried * 0.5 + row.sum()
        return carried, (carried * row, row, carried)

    last, (products, rows, states) = rl.scan(step, x[0], x)
    return last, products, rows, states.flip(0), products


def backwards(x):
    return rl.scan(lambda kept, row: (kept + row, kept), x.sum(0), x, reverse=True)


def each(x, y):
    return rl.map(lambda part: (part @ y).softmax(-1), x)


def nested(x, w):
    def step(carried, row):
        held = rl.cond((row > 0).any(), lambda c, s: c @ w + s, lambda c, s: c - s, (carried, row))

        def inner(held, number):
            held = held * number + 1
            return held, held.exp().clamp(max=3.0)

        held, powers = rl.scan(inner, held, row)
        (count,) = rl.while_loop(lambda count: count.sum() < 30, lambda count: (count + 3,), (row * 0 + 2,))
        return held, (powers, count)

    return rl.scan(step, x[0] * 0, x, reverse=True)


def slopes(w, x):
    def loss(w):
        last, made = rl.scan(lambda c, s: ((c @ w + s).tanh(), c * s), x[0], x)
        return made.square().sum() + last.sum()

    return rl.func.grad(loss)(w)


ROWS, COLUMNS = Dim("n", max=500), Dim("m", max=500)
SOME = Dim("k", min=1, max=500)
Case = tuple[Callable[..., object], tuple[tuple[int, ...], ...], tuple[dict[int, Dim], ...]]
CASES: dict[str, Case] = {
    "cond": (branch, ((5, 3), (3, 4)), ({0: ROWS}, {1: COLUMNS})),
    "while": (wait, ((5, 3),), ({0: SOME},)),
    "scan": (running, ((5, 3),), ({0: SOME},)),
    "reverse": (backwards, ((5, 3),), ({0: ROWS},)),
    "map": (each, ((5, 3, 2), (2, 4)), ({0: ROWS, 1: COLUMNS}, {})),
    "nested": (nested, ((5, 3), (3, 3)), ({0: SOME}, {})),
    "gradient": (slopes, ((3, 3), (5, 2, 3)), ({}, {0: SOME, 1: COLUMNS})),
}


def program_of(name: str) -> ExportedProgram:
    function, shapes, dims = CASES[name]
    rl.manual_seed(0)
    return export(function, tuple([rl.randn(*shape) for shape in shapes]), dynamic_shapes=dims)


def arrays_of(name: str, rng: np.random.Generator, rows: int) -> list[np.ndarray]:
    """Inputs of a case with `rows` in place of each open size, or a few more."""
    _, shapes, dims = CASES[name]
    least = {id(ROWS): rows, id(SOME): max(rows, 1), id(COLUMNS): rows + 2}
    sizes = [
        [least[id(open_[at])] if at in open_ else size for at, size in enumerate(shape)]
        for shape, open_ in zip(shapes, dims, strict=True)
    ]
    return [rng.standard_normal(shape).astype(np.float32) for shape in sizes]


def leaves(value: object) -> list[np.ndarray]:
    if isinstance(value, (tuple, list)):
        return [leaf for part in value for leaf in leaves(part)]
    return [value.numpy() if isinstance(value, rl.Tensor) else np.asarray(value)]


@pytest.mark.parametrize("name", CASES)
def test_a_package_gives_the_bits_of_pythons_control_flow(tmp_path: Path, name: str):
    package(program_of(name), tmp_path, shared=True)
    one, four = (rushlight_runtime.load(tmp_path, threads=threads) for threads in (1, 4))
    rng = np.random.default_rng(0)
    for rows in (0, 1, 2, 7, 65):
        arrays = arrays_of(name, rng, rows)
        if rows == 7:
            arrays[0].flat[3] = np.nan
        wanted = leaves(CASES[name][0](*map(rl.from_numpy, arrays)))
        for run in (one, four):
            given = leaves(run(*arrays))
            assert len(given) == len(wanted)
            for mine, other in zip(given, wanted, strict=True):
                np.testing.assert_array_equal(mine, other)


def test_a_flow_has_the_steps_of_its_graph():
    flow, natives = make_flow(program_of("nested").graph)
    (scan,) = [step for step in flow.frame.steps if isinstance(step, ScanLoop)]
    assert scan.reverse
    inside = [type(step) for step in scan.body.steps if isinstance(step, (Branches, ScanLoop, WhileLoop))]
    assert sorted(kind.__name__ for kind in inside) == ["Branches", "ScanLoop", "WhileLoop"]
    assert len(natives) >= 6
    assert sum([native.branch is None for native in natives]) < len(natives)


def test_values_of_later_steps_share_memory():
    def layers(x):
        for _ in range(6):
            x = rl.scan(lambda c, s: (c + s, c * s), x[0], x.sin())[1]
        return x

    flow, _ = make_flow(export(layers, (rl.ones(64, 100),)).graph)
    large = [slot for slot in flow.frame.slots if len(slot.buffer.type.shape) == 2]
    assert len(large) >= 10
    assert sum([not slot.after for slot in large]) <= 2, "each value has memory of its own"


class Tracker(rl.nn.Module):
    """Looks rows up step by step, and keeps their sum."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", rl.zeros(3))

    def forward(self, x: rl.Tensor, ids: rl.Tensor) -> rl.Tensor:
        last, rows = rl.scan(lambda total, at: (total + x[at], x[at]), self.total, ids)
        self.total.copy_(last)
        return rows


def test_a_check_inside_a_loop_is_told_and_no_state_is_written(tmp_path: Path):
    rl.manual_seed(0)
    example = (rl.randn(5, 3), rl.tensor([0, 1, 0]))
    program = export(Tracker(), example, dynamic_shapes=({0: Dim("rows", min=2, max=100)}, {0: Dim("count", max=9)}))
    package(program, tmp_path, shared=True)
    run = rushlight_runtime.load(tmp_path)
    x = example[0].numpy()
    with pytest.raises(rushlight_runtime.PackageError, match="out of range for a dim of size"):
        run(x, np.array([0, 4, 5]))
    assert not run.state["total"].any()
    np.testing.assert_array_equal(run(x, np.array([4, 1])), x[[4, 1]])
    np.testing.assert_array_equal(run.state["total"], x[4] + x[1])
    assert run(x, np.array([], np.int64)).shape == (0, 3)


def test_an_arena_that_is_too_short_is_a_status_and_no_result(tmp_path: Path):
    package(program_of("scan"), tmp_path, shared=True)
    library = ctypes.CDLL(str(tmp_path / "libmodel.so"))
    library.model_arena_size.restype = ctypes.c_int64
    need = library.model_arena_size(ctypes.c_int64(1), ctypes.c_int64(40))
    assert need > 0
    memory = np.zeros(need + 64, np.uint8)
    arena = memory.ctypes.data + -memory.ctypes.data % 64
    x = np.ones((40, 3), np.float32)
    results = [np.full(shape, 7, np.float32) for shape in ((3,), (40, 3), (40, 3), (40, 3))]

    def status(size: int) -> int:
        words = (ctypes.c_void_p * 7)(arena, size, 0, 0, 0, 1, 0)
        pointers = [ctypes.c_void_p(array.ctypes.data) for array in (x, *results)]
        return library.model_run(ctypes.byref(words), ctypes.c_int64(40), *pointers)

    assert status(need - 64) == 1
    assert all((result == 7).all() for result in results)
    assert status(need) == 0
    assert not any((result == 7).all() for result in results)


def test_two_builds_have_the_same_bytes(tmp_path: Path):
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        rl.compiler.reset()
        package(program_of("nested"), folder)
    first, second = ({path.name: path.read_bytes() for path in folder.iterdir()} for folder in folders)
    assert "model.o" in first
    assert first == second


def test_sizes_that_only_a_run_tells_are_refused(tmp_path: Path):
    def grown(x):
        return rl.cond(x.sum() > 0, lambda x: x[x > 0], lambda x: x[x > 1], (x,))

    with pytest.raises(rl.RushlightError, match="cond runs in Python alone") as caught:
        package(export(grown, (rl.ones(5),)), tmp_path)
    assert caught.value.code == "P010"


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_a_c_program_gives_the_same_bits(tmp_path: Path):
    made = package(program_of("nested"), tmp_path)
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-O1"]
    subprocess.run(["cc", *flags, made.example.name, "model.o", "-lm", "-o", "main"], cwd=tmp_path, check=True)
    checks = [[], ["valgrind", "-q", "--error-exitcode=9"]] if shutil.which("valgrind") else [[]]
    for seed, before in enumerate(checks):
        same_run(made.run(seed, spread=5), tmp_path, [*before, str(tmp_path / "main")])


@pytest.mark.skipif(shutil.which("node") is None, reason="the peer Node is not here")
def test_a_module_of_webassembly_gives_the_same_bits(tmp_path: Path):
    made = package(program_of("nested"), tmp_path, targets=["wasm32"])
    for seed in range(3):
        same_run(made.run(seed), tmp_path, ["node", "model.mjs"])


def same_run(run: Run, folder: Path, command: list[str]) -> None:
    run.write_inputs(folder)
    subprocess.run([*command, *map(str, run.sizes)], cwd=folder, check=True, timeout=200)
    assert run.differing(folder) == []
