"""`rushlight demo` and `rushlight generate`, from the outside."""

import json
import re
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import TINY_DEMO, start


def losses(folder: Path) -> list[float]:
    return [json.loads(line)["loss"] for line in (folder / "log.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of four steps, which tests copy."""
    folder = tmp_path_factory.mktemp("made") / "run"
    process = start(*TINY_DEMO, "--steps", "4", "--out", str(folder), folder=folder.parent)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return folder


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    """A finished run of four steps."""
    return shutil.copytree(made, tmp_path / "run")


@pytest.mark.core
def test_the_demo_says_and_writes_all_that_it_promises(
    rushlight: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    ended = rushlight(*TINY_DEMO, "--steps", "4")
    assert ended.status == 0, ended.err
    run = tmp_path / "runs" / "demo-001"
    files = {path.name for path in run.iterdir()} - {"loss.svg"}
    assert files == {"config.json", "log.jsonl", "checkpoint.safetensors", "result.json"}
    assert "runs/demo-001" in ended.out
    assert re.search(r"step 4/4  loss \d\.\d{4}  [\d,]+ tokens/s  0:00 left", ended.out)
    assert re.search(r"step 4/4  held-out loss \d\.\d{4}", ended.out)
    assert re.search(r"held-out loss  \d\.\d{4} nats per byte", ended.out)
    assert re.search(r"4-gram         \d\.\d{4} nats per byte", ended.out)
    assert "\ndef " in ended.out
    for name in ("graphs", "kernels", "compile time", "arena", "cache"):
        assert re.search(rf"^{name} .*\d", ended.out, re.MULTILINE), name
    result = json.loads((run / "result.json").read_text())
    assert 1 < result["four_gram"] < result["held_out"] < 6
    config = json.loads((run / "config.json").read_text())
    assert config["config"]["steps"] == 4
    assert config["versions"]["rushlight"]
    assert len(losses(run)) == 4
    assert "\x1b" not in ended.out


def test_runs_do_not_overwrite_each_other(rushlight: Callable, run: Path):
    before = {path: path.read_bytes() for path in run.iterdir()}
    ended = rushlight(*TINY_DEMO, "--steps", "2", "--out", str(run))
    assert ended.status == 1
    assert ended.err.startswith("error P007: demo: there is something at --out already")
    assert {path: path.read_bytes() for path in run.iterdir()} == before


def test_eager_and_compiled_log_the_same_losses(rushlight: Callable, run: Path, tmp_path: Path):
    ended = rushlight(*TINY_DEMO, "--steps", "4", "--eager", "--threads", "1", "--out", str(tmp_path / "eager"))
    assert ended.status == 0, ended.err
    assert losses(tmp_path / "eager") == losses(run)
    assert "--eager" in ended.out
    checkpoints = {(folder / "checkpoint.safetensors").read_bytes() for folder in (run, tmp_path / "eager")}
    assert len(checkpoints) == 1


def test_another_seed_has_other_losses(rushlight: Callable, run: Path, tmp_path: Path):
    assert rushlight(*TINY_DEMO, "--steps", "4", "--seed", "1", "--out", str(tmp_path / "other")).status == 0
    assert losses(tmp_path / "other") != losses(run)


def test_generate_continues_a_text(rushlight: Callable, run: Path):
    arguments = ("generate", str(run), "--prompt", "import ", "--length", "20")
    first = rushlight(*arguments)
    assert first.status == 0, first.err
    assert first.out.startswith("import ")
    assert rushlight(*arguments).out == first.out
    assert rushlight(*arguments, "--seed", "5").out != first.out
    assert rushlight("generate", str(run / "checkpoint.safetensors"), "--length", "3", "--temperature", "0").status == 0
    assert rushlight("generate", str(run), "--prompt", "", "--length", "3").status == 0


@pytest.mark.parametrize("command", [["generate"], ["demo", "--resume"]])
def test_a_bad_run_is_one_clear_error(command: list[str], rushlight: Callable, run: Path):
    checkpoint = run / "checkpoint.safetensors"
    missing = rushlight(*command, str(run / "nowhere"))
    assert missing.status == 1
    assert missing.err.startswith("error P001: ")
    checkpoint.write_bytes(checkpoint.read_bytes()[:-10])
    before = {path: path.read_bytes() for path in run.iterdir()}
    truncated = rushlight(*command, str(run))
    assert truncated.status == 1
    assert truncated.err.startswith("error P002: ")
    assert "Traceback" not in truncated.err
    checkpoint.write_bytes(b"hello")
    foreign = rushlight(*command, str(run))
    assert foreign.status == 1
    assert foreign.err.startswith(("error P002: ", "error P005: "))
    checkpoint.write_bytes(before[checkpoint])
    assert {path: path.read_bytes() for path in run.iterdir()} == before


def test_ctrl_c_saves_and_resume_continues_bit_for_bit(rushlight: Callable, tmp_path: Path):
    steps = "2000"
    process = start(*TINY_DEMO, "--set", "save_every=100000", "--steps", steps, "--out", "run", folder=tmp_path)
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("step 50/"):
            break
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    stopped = re.search(r"Stopped after step (\d+) of 2000", out)
    assert stopped is not None, out
    assert "rushlight demo --resume run" in out
    done = int(stopped[1])
    assert 50 <= done < 2000
    total = str(done + 20)
    assert len(losses(tmp_path / "run")) == done
    ended = rushlight("demo", "--resume", str(tmp_path / "run"), "--steps", total, "--out", str(tmp_path / "resumed"))
    assert ended.status == 0, ended.err
    assert len(losses(tmp_path / "resumed")) == done + 20
    assert losses(tmp_path / "resumed")[:done] == losses(tmp_path / "run")


def test_a_resumed_run_keeps_its_seed(rushlight: Callable, run: Path):
    ended = rushlight("demo", "--resume", str(run), "--seed", "3")
    assert ended.status == 1
    assert ended.err.startswith("error A002: ")


def test_a_finished_run_can_be_resumed_and_lengthened(rushlight: Callable, run: Path):
    before = losses(run)
    assert rushlight("demo", "--resume", str(run)).status == 0
    assert losses(run) == before
    assert rushlight("demo", "--resume", str(run), "--steps", "6").status == 0
    assert losses(run)[:4] == before
    assert len(losses(run)) == 6


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--device", "gpu"], "V001"),
        (["--set", "colour=1"], "A002"),
        (["--set", "heads=5"], "A002"),
    ],
)
def test_wrong_options_are_errors(arguments: list[str], code: str, rushlight: Callable, tmp_path: Path):
    ended = rushlight(*TINY_DEMO, *arguments, "--out", str(tmp_path / "run"))
    assert ended.status == 1
    assert ended.err.startswith(f"error {code}: "), ended.err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("arguments", [["--steps", "0"], ["--threads", "-1"], ["--nonsense"]])
def test_wrong_calls_are_usage_errors(arguments: list[str], rushlight: Callable):
    assert rushlight("demo", *arguments).status == 2
