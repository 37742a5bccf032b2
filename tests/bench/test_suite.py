"""The suite of models: a part of what `rushlight bench suite` and `bench model` run, and that errors are told."""

import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from typer.testing import CliRunner

import rushlight as rl
from rushlight.bench.suite import modded_nanogpt, running
from rushlight.bench.suite.curves import Curve, difference
from rushlight.bench.suite.running import Setup, accuracy, measured
from rushlight.cli.benchmarks import app


@pytest.mark.row("10.8")
@pytest.mark.parametrize(
    "setup",
    [Setup(), Setup(training=True, amp="bf16", compiled_autograd=True), Setup(training=True, dynamic=True)],
    ids=["inference", "bf16 by compiled autograd", "sizes"],
)
def test_a_model_is_as_accurate_as_eager_code(setup: Setup, quick_code: None):
    found = measured("dlrm", setup, 0, 0.0)
    assert found["accuracy"] == "pass, same bits"
    assert found["graphs"] >= 1


@pytest.mark.row("10.8")
def test_compiled_autograd_is_asked_for_by_its_public_name():
    text = Path(running.__file__).read_text(encoding="utf-8")
    assert "rl.compiler.compiled_autograd.enable()" in text
    assert "capture" not in text


@pytest.mark.row("10.8")
def test_results_that_differ_are_told():
    x = rl.tensor([1.0, 2.0])
    assert str(accuracy([x], [x])) == "pass, same bits"
    assert accuracy([x + 1e-3], [x]).passes
    assert not accuracy([x + 0.1], [x]).passes
    assert not accuracy([x * float("nan")], [x]).passes
    assert not accuracy([x, x], [x]).passes
    assert not accuracy([x[:1]], [x]).passes


@pytest.mark.row("10.8")
def test_a_wrong_model_ends_with_one_and_the_page_has_a_chart(tmp_path: Path, monkeypatch, quick_code: None):
    command = ["suite", "--only", "dlrm", "--training", "--rounds", "3", "--budget", "0.1"]
    out, page = tmp_path / "run.json", tmp_path / "run.html"
    ended = CliRunner().invoke(app, [*command, "--json", str(out), "--html", str(page)])
    assert ended.exit_code == 0
    assert "1 of 1 pass; training" in ended.output
    (case,) = json.loads(out.read_text())["cases"]
    assert case["speedup"] > 0
    assert len(list(ElementTree.parse(page).getroot().iter("{http://www.w3.org/2000/svg}rect"))) == 2
    monkeypatch.setattr(running, "TOLERANCE", -1.0)
    assert CliRunner().invoke(app, ["suite", "--only", "dlrm", "--rounds", "0"]).exit_code == 1


@pytest.mark.row("10.7")
@pytest.mark.slow
def test_the_curve_of_modded_nanogpt_is_that_of_eager_code(quick_code: None):
    command = ["model", "modded_nanogpt", "--train", "--steps", "4", "--amp", "bf16", "--device", "cpu", "--tiny"]
    ended = CliRunner().invoke(app, command)
    assert ended.exit_code == 0, ended.output
    assert "speedup" in ended.output
    assert "losses differ by at most" in ended.output


@pytest.mark.row("10.7")
def test_what_needs_other_hardware_is_skipped_in_words():
    for option in (["--device", "cuda"], ["--fp8"]):
        ended = CliRunner().invoke(app, ["model", "modded_nanogpt", "--train", *option])
        assert ended.exit_code == 0
        assert "is skipped" in ended.output


@pytest.mark.row("10.7")
def test_curves_that_part_are_told():
    assert difference(Curve([2.0, 1.0], []), Curve([2.0, 1.0], [])) == 0.0
    assert difference(Curve([2.0, 1.02], []), Curve([2.0, 1.0], [])) == pytest.approx(0.02)


@pytest.mark.row("10.7")
def test_attention_stays_within_documents_and_the_window():
    documents = np.array([0, 0, 0, 1, 1, 1, 1])
    mask = modded_nanogpt.window_mask(rl.from_numpy(documents), 2).numpy()
    for query in range(7):
        for key in range(7):
            expected = documents[query] == documents[key] and 0 <= query - key < 2
            assert mask[query, key] == expected
    model = modded_nanogpt.ModdedGPT()
    muon, adam = model.optimizers()
    assert isinstance(muon, rl.optim.Muon)
    held = [each for optimizer in (muon, adam) for group in optimizer.param_groups for each in group["params"]]
    assert len(held) == len(set(map(id, held))) == len(list(model.parameters()))
