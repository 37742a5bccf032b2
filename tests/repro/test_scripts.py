"""Compiled graphs as scripts: what they hold, that they run in a process of their own, and how two differ."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import rushlight as rl
from rushlight.ir.dtype import BY_NAME
from rushlight.repro import Given, differences, read
from rushlight.repro.running import differing, digest
from rushlight.support import settings


@pytest.fixture
def folder(tmp_path: Path):
    """A folder that graphs are written to."""
    rl.compiler.reset()
    with settings.override(repro=str(tmp_path / "scripts")):
        yield tmp_path / "scripts"
    rl.compiler.reset()


def scripts(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.py"))


def run(*paths: Path) -> list[tuple[int, str]]:
    """What each script does in a process of its own, with no setting of ours and no cache."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("RUSHLIGHT_")}
    found = []
    for path in paths:
        done = subprocess.run(
            [sys.executable, path], env=own | {"RUSHLIGHT_CACHE": "0"}, cwd="/", capture_output=True, text=True
        )
        found.append((done.returncode, done.stdout + done.stderr))
    return found


@pytest.mark.row("11.1")
def test_a_training_step_is_a_script_that_runs_elsewhere(folder: Path):
    rl.manual_seed(0)
    model = rl.nn.Sequential(rl.nn.Linear(8, 16), rl.nn.GELU(), rl.nn.LayerNorm(16), rl.nn.Linear(16, 4))
    optimizer = rl.optim.Adam(model.parameters(), lr=0.1)

    @rl.compile(fullgraph=True)
    def step(x, y):
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    with settings.override(repro=""):
        plain = step(rl.ones(5, 8), rl.zeros(5, 4)).item()
    rl.compiler.reset()
    model.load_state_dict(model.state_dict())
    step(rl.ones(5, 8), rl.zeros(5, 4))
    step(rl.ones(7, 8), rl.zeros(7, 4))
    (path,) = scripts(folder)
    script = read(path)
    assert "size s0 = 5" in script.graph and len(script.parsed.mutations) > 8
    assert script.versions["rushlight"] == rl.__version__ and np.isfinite(plain)
    ((status, text),) = run(path)
    assert status == 0 and text == f"as recorded: {script.digest[:16]}\n", text


@pytest.mark.row("11.1")
def test_recording_changes_no_result(tmp_path: Path):
    def f(x, w):
        h = x @ w
        return h.softmax(-1), h[h > 0].sum()

    x, w = rl.randn(6, 9), rl.randn(9, 5, requires_grad=True)
    expected = [f(x, w)[0], f(x, w)[1], *rl.autograd.grad(f(x, w)[0][:, 0].sum(), w)]
    with settings.override(repro=str(tmp_path)):
        compiled = rl.compile(f)
        soft, total = compiled(x, w)
        assert [soft.tolist(), total.item()] == [expected[0].tolist(), expected[1].item()]
        assert rl.autograd.grad(soft[:, 0].sum(), w)[0].tolist() == expected[2].tolist()
    assert len(scripts(tmp_path)) >= 3
    assert {status for status, _ in run(*scripts(tmp_path))} == {0}


def test_a_call_that_fails_is_recorded_with_its_error(folder: Path):
    gathered = rl.compile(lambda x, i: x.gather(0, i), fullgraph=True)
    with pytest.raises(rl.RushlightError, match="out of range"):
        gathered(rl.ones(3), rl.tensor([0, 7]))
    (path,) = scripts(folder)
    assert read(path).digest == "I001" and run(path) == [(0, "as recorded: I001\n")]


def test_another_result_is_told_with_other_versions(folder: Path):
    rl.compile(lambda x: x.exp() - 1, fullgraph=True)(rl.ones(3))
    (path,) = scripts(folder)
    text = path.read_text()
    script = read(path)
    path.write_text(text.replace(script.digest, "0" * 64).replace(f"'numpy': '{np.__version__}'", "'numpy': '1.0'"))
    ((status, told),) = run(path)
    assert status == 1 and f"different: {script.digest[:16]}" in told and "recorded with 1.0" in told


def test_settings_that_code_depends_on_travel_with_the_graph(folder: Path):
    with settings.override(optimise=0, target="x86-64-v3"):
        rl.compile(lambda x: x * 2, fullgraph=True)(rl.ones(3))
    (path,) = scripts(folder)
    assert read(path).settings == {"optimise": 0, "target": "x86-64-v3"}


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0, dtype=np.float32).reshape(2, 3).T,
        np.broadcast_to(np.float64(2.5), (4, 2)),
        np.array([float("nan"), -0.0, float("inf")], np.float32),
        np.zeros((0, 3), np.int64),
        np.array(True),
        np.array([1 + 2j, 3 - 4j]),
        np.arange(40_000, dtype=np.int32)[::3],
    ],
    ids=["transposed", "expanded", "special", "empty", "bool", "complex", "strided"],
)
def test_inputs_come_back(array: np.ndarray):
    again = Given.of(array, BY_NAME[array.dtype.name], 0).array()
    assert again.strides == array.strides and not differing([again], [array])
    assert digest([again]) == digest([array])


def test_large_inputs_are_drawn_like_they_were():
    rng = np.random.default_rng(0)
    array = (rng.standard_normal((300, 200)) * 3 + 7).astype(np.float32)
    given = Given.of(array, BY_NAME["float32"], 5)
    assert not given.data and given.drawn is not None
    again = given.array()
    assert abs(again.mean() - 7) < 0.1 and abs(again.std() - 3) < 0.1 and again.max() <= array.max()
    assert digest([again]) == digest([given.array()]) != digest([array])
    many = rng.integers(3, 9, (1000, 300))
    drawn = Given.of(many, BY_NAME["int64"], 1).array()
    assert drawn.min() == 3 and drawn.max() == 8 and drawn.dtype == many.dtype


def test_digests_tell_bits_apart():
    zero, nan = np.array([0.0]), np.array([0x7FF8000000000001], np.uint64).view(np.float64)
    assert digest([zero]) != digest([-zero]) and digest([nan]) == digest([np.array([np.nan])])
    assert digest([zero]) != digest([zero.astype(np.float32)]) and digest([zero]) != digest([zero.reshape(1, 1)])


def test_what_is_no_script_is_said_so(tmp_path: Path):
    (tmp_path / "a.py").write_text("GRAPH = 1 +\n")
    (tmp_path / "b.py").write_text("print('never run')\n")
    for name in ("a.py", "b.py", "c.py"):
        with pytest.raises(rl.RushlightError) as caught:
            read(tmp_path / name)
        assert caught.value.code == "C009"


def test_differences_end_at_the_first_stage_that_differs(folder: Path):
    rl.compile(lambda x: x.exp() + x, fullgraph=True)(rl.ones(3))
    (first,) = scripts(folder)
    one = read(first)
    assert list(differences(one, one)) == []
    other = one._replace(graph=one.graph.replace("exp", "sin"), settings={"optimise": 0})
    lines = list(differences(one, other))
    assert lines[0] == "settings: optimise is None in A, 0 in B"
    assert "--- A/00-captured.ir" in lines and any(line.startswith("-") and "exp(" in line for line in lines)
    assert lines[-1].startswith("and so do the stages 01-primitives.ir")
    moved = one._replace(inputs=(one.inputs[0]._replace(shape=(4,), data=""),))
    assert any("float32[3] strides [1] and float32[4]" in line for line in differences(one, moved))


SLOPE = 0.5


def leaning(values):
    return rl.where(values > 0, values, values * SLOPE)


def shifted(values, by):
    return leaning(values + by)


@rl.tile.kernel
def rows_of(x, by):
    out = rl.empty_like(x)
    for i in rl.tile.tile(x.shape[0]):
        out[i, :] = shifted(x[i, :], by).cumsum(1)
    return out


@pytest.mark.row("11.2")
def test_a_kernel_with_helpers_a_global_and_open_sizes_runs_elsewhere(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("STRANGE", 'it\'s "quoted"\nand goes on\\')
    step = rl.compile(lambda x: rows_of(x * 2, 0.25).sum(0), fullgraph=True)
    for rows in (3, 7):
        x = rl.randn(rows, 4)
        assert step(x).tolist() == rows_of(x * 2, 0.25).sum(0).tolist()
    (path,) = scripts(folder)
    text = path.read_text(encoding="utf-8")
    assert "size s0 = 3" in text  # which is open in the graph
    assert "0.5" in text  # what the helpers do is part of it too
    assert [status for status, _ in run(path)] == [0]
