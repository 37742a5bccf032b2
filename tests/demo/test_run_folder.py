"""A run's folder: numbered, never overwritten, and written whole."""

import resource
import signal
from pathlib import Path

import pytest

from rushlight.demo.run_folder import RunFolder, new_run
from rushlight.support.errors import RushlightError


def test_runs_are_numbered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert new_run().path == Path("runs/demo-001")
    assert new_run().path == Path("runs/demo-002")
    Path("runs/demo-003").write_text("a file may have the name")
    assert new_run().path == Path("runs/demo-004")


def test_a_folder_that_is_asked_for_must_be_free(tmp_path: Path):
    assert new_run(tmp_path / "a" / "b").path == tmp_path / "a" / "b"
    assert new_run(tmp_path / "a" / "b").path.is_dir()
    (tmp_path / "a" / "b" / "x").write_text("mine")
    with pytest.raises(RushlightError) as caught:
        new_run(tmp_path / "a" / "b")
    assert caught.value.code == "P007"
    assert (tmp_path / "a" / "b" / "x").read_text() == "mine"


def test_a_file_where_a_folder_should_be_is_an_error(tmp_path: Path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(RushlightError) as caught:
        new_run(tmp_path / "file")
    assert caught.value.code == "P007"
    with pytest.raises(RushlightError) as caught:
        new_run(tmp_path / "file" / "below")
    assert caught.value.code == "P003"


def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path: Path):
    run = RunFolder(tmp_path)
    run.write_text("result.json", "old")
    (tmp_path / ".result.json.part").mkdir()
    with pytest.raises(RushlightError) as caught:
        run.write_text("result.json", "new")
    assert caught.value.code == "P003"
    assert (tmp_path / "result.json").read_text() == "old"


def test_a_full_disk_while_logging_is_an_error(tmp_path: Path):
    run = RunFolder(tmp_path)
    with run.logging([]) as append:
        append({"step": 1})
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limit[1]))
    try:
        with pytest.raises(RushlightError) as caught, run.logging(run.lines()) as append:
            for step in range(2, 1000):
                append({"step": step})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, before)
    assert caught.value.code == "P003"
    steps = [line["step"] for line in run.lines()]
    assert steps == list(range(1, len(steps) + 1))
    assert len(steps) > 100
