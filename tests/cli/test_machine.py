"""`rushlight info` and `rushlight doctor`."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import start

import rushlight as rl
from rushlight.cli import checks
from rushlight.support import settings


def test_info_names_versions_and_the_machine(rushlight: Callable):
    ended = rushlight("info")
    assert ended.status == 0
    lines = dict(line.split(None, 1) for line in ended.out.splitlines())
    assert lines["rushlight"].startswith(rl.__version__)
    assert "LLVM" in lines["llvmlite"]
    assert "bytes" in lines["processor"]
    assert lines["threads"].split()[0] == str(rl.get_num_threads())
    assert {"python", "numpy", "system", "features", "target", "memory", "cache", "settings"} <= set(lines)


def test_info_shows_settings_that_are_not_the_defaults(rushlight: Callable):
    with settings.override(numerics="fast"):
        assert "RUSHLIGHT_NUMERICS=fast" in rushlight("info").out


@pytest.mark.core
def test_doctor_finds_this_machine_well(rushlight: Callable, cache: Path):
    ended = rushlight("doctor")
    assert ended.status == 0, ended.out
    assert [line.split()[1] for line in ended.out.splitlines()[:-1]] == list(checks.CHECKS)
    assert ended.out.endswith("Everything works.\n")


def test_the_probe_takes_less_than_a_second():
    times = []
    for _ in range(3):
        started = time.process_time()
        finding = checks.CHECKS["probe"]()
        times.append(time.process_time() - started)
        assert "right" in finding.text or "took" in finding.text
    assert min(times) < 1.0


def test_the_probe_compiles_and_leaves_nothing_in_the_cache(cache: Path):
    checks.CHECKS["target"]()
    before = list(cache.rglob("*"))
    rl.compiler.reset()
    assert checks.CHECKS["probe"]().well
    assert rl.compiler.graph_count() == 1
    assert list(cache.rglob("*")) == before


def test_a_wrong_result_is_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(checks, "_probe_function", lambda x: (x * 0.5 - 1).abs() + 1e-6)
    finding = checks.CHECKS["probe"]()
    assert not finding.well
    assert "wrong" in finding.text
    assert finding.remedy


def test_an_unknown_setting_is_a_finding_with_a_remedy(tmp_path: Path):
    process = start("doctor", folder=tmp_path, RUSHLIGHT_NUM_THREAD="2")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "T001" in out + err
    assert "RUSHLIGHT_NUM_THREADS" in out + err


def test_a_target_that_cannot_run_here_is_a_finding():
    with settings.override(target="aarch64"):
        finding = checks.CHECKS["target"]()
    assert not finding.well
    assert "RUSHLIGHT_TARGET" in finding.remedy


@pytest.mark.filterwarnings("ignore::rushlight.support.errors.CacheWarning")
def test_a_cache_that_cannot_be_used_is_a_finding(tmp_path: Path):
    (tmp_path / "file").write_text("not a folder")
    with settings.override(cache_dir=tmp_path / "file" / "cache"):
        finding = checks.CHECKS["cache"]()
    assert not finding.well
    assert "RUSHLIGHT_CACHE_DIR" in finding.remedy


def test_a_corrupt_cache_entry_is_a_finding(cache: Path):
    assert checks.CHECKS["cache"]().well
    next(cache.glob("*.rlo")).write_bytes(b"nonsense")
    (cache / "other.rlo").write_bytes(b"nonsense")
    finding = checks.CHECKS["cache"]()
    assert not finding.well
    assert finding.remedy == "rushlight cache clear"


def test_a_check_that_fails_in_a_way_of_its_own_is_a_finding(
    monkeypatch: pytest.MonkeyPatch, rushlight: Callable, cache: Path
):
    def broken() -> checks.Finding:
        raise OSError("no such thing")

    monkeypatch.setitem(checks.CHECKS, "memory", broken)
    ended = rushlight("doctor")
    assert ended.status == 1
    assert "FAIL memory" in ended.out
    assert "no such thing" in ended.out
    assert "to mend it:" in ended.out
    assert "1 of these must be mended first." in ended.out
