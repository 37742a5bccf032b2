"""The questions that ship with Rushlight, asked of the example devices as their authors ask them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import plugins


def asked(folder: Path, *options: str, packages: tuple[str, ...] = ("mica", "flint")) -> str:
    """What pytest prints in an empty folder."""
    paths = [path for name in packages for path in plugins.install(folder / "site" / name, plugins.EXAMPLES / name)]
    folder.joinpath("here").mkdir(exist_ok=True, parents=True)
    command = [sys.executable, "-m", "pytest", "-p", "rushlight.testing.device", "-p", "no:cacheprovider", "-q"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*paths, *sys.path])}
    made = subprocess.run(
        [*command, *options], cwd=folder / "here", env=environment, capture_output=True, text=True, timeout=280
    )
    return made.stdout + made.stderr


@pytest.mark.slow
@pytest.mark.row("1.7")
@pytest.mark.row("1.9")
@pytest.mark.generated("tier", family="devices")
@pytest.mark.parametrize("tier", ["memory", "compile", "serialisation", "buckets"])
def test_mica_has_the_bits_of_the_cpu_in_a_tier(tmp_path: Path, tier: str):
    printed = asked(tmp_path, "--device", "mica", "--tier", tier, "--device-tolerance", "0")
    assert " passed" in printed, printed
    assert "failed" not in printed, printed


@pytest.mark.slow
@pytest.mark.generated("tier", family="devices")
@pytest.mark.row("1.7")
@pytest.mark.parametrize("tier", ["eager", "autograd"])
def test_mica_computes_some_operators_as_the_cpu_does(tmp_path: Path, tier: str):
    some = "mul or softmax or gather or arange or as_number or item or cumsum or igamma or not gives and not gradients"
    printed = asked(tmp_path, "--device", "mica", "--tier", tier, "--device-tolerance", "0", "-k", some)
    assert " passed" in printed, printed
    assert "failed" not in printed, printed


@pytest.mark.slow
@pytest.mark.row("1.7")
@pytest.mark.row("1.9")
@pytest.mark.generated("tier", family="devices")
@pytest.mark.parametrize("tier", ["memory", "serialisation", "buckets"])
def test_flint_passes_its_tiers(tmp_path: Path, tier: str):
    printed = asked(tmp_path, "--device", "flint", "--tier", tier)
    assert " passed" in printed, printed
    assert "failed" not in printed, printed


@pytest.mark.slow
@pytest.mark.generated("tier", family="devices")
@pytest.mark.row("1.7")
@pytest.mark.parametrize("tier", ["eager", "autograd"])
def test_flint_computes_some_operators_in_parts_or_by_way_of_the_cpu(tmp_path: Path, tier: str):
    some = "einsum or igamma or lerp or kron or not gives and not gradients"
    printed = asked(tmp_path, "--device", "flint", "--tier", tier, "--device-tolerance", "0", "-k", some)
    assert " passed" in printed, printed
    assert "failed" not in printed, printed


@pytest.mark.slow
@pytest.mark.generated("tier", family="devices")
@pytest.mark.parametrize("tier", ["memory", "compile", "serialisation", "buckets"])
def test_the_emulated_gpu_has_the_bits_of_the_cpu_in_a_tier(tmp_path: Path, tier: str):
    printed = asked(tmp_path, "--device", "simt", "--tier", tier, "--device-tolerance", "0", packages=("simt",))
    assert " passed" in printed, printed
    assert "failed" not in printed, printed


@pytest.mark.slow
@pytest.mark.generated("tier", family="devices")
@pytest.mark.parametrize("tier", ["eager", "autograd"])
def test_the_emulated_gpu_computes_some_operators_as_the_cpu_does(tmp_path: Path, tier: str):
    some = "mul or softmax or gather or arange or as_number or item or cumsum or igamma or not gives and not gradients"
    wanted = ("--device", "simt", "--tier", tier, "--device-tolerance", "0", "-k", some)
    printed = asked(tmp_path, *wanted, packages=("simt",))
    assert " passed" in printed, printed
    assert "failed" not in printed, printed


def test_a_device_must_be_named(tmp_path: Path):
    assert "name a device" in asked(tmp_path)


def test_questions_that_were_answered_are_not_asked_again(tmp_path: Path):
    ledger = tmp_path / "ledger.jsonl"
    wanted = ("--device", "mica", "--tier", "eager", "--device-tolerance", "0", "--resume", str(ledger))
    assert "2 passed" in asked(tmp_path, *wanted, "-k", "[neg] or [abs]")
    lines = [json.loads(line) for line in ledger.read_text().splitlines()]
    assert [line["question"] for line in lines] == [
        f"eager: test_an_operator_gives_what_the_cpu_gives[{name}]" for name in ("abs", "neg")
    ]
    assert {line["outcome"] for line in lines} == {"passed"}
    with ledger.open("a") as file:
        file.write('{"question": "eager: test_an_oper')  # as where the process ended
    printed = asked(tmp_path / "again", *wanted, "-k", "[neg] or [abs] or [sign]")
    assert "1 passed" in printed, printed
    assert "[sign]" in ledger.read_text().splitlines()[-1]
