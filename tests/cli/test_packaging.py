"""`rushlight aot`: packages of scripts and of saved programs."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import rushlight as rl

SCRIPT = """
import rushlight as rl

program = rl.export.export(lambda x, y: (x @ y).relu().sum(0), (rl.ones(3, 4), rl.ones(4, 2)))
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_aot_writes_a_package_and_compares_its_bits(rushlight: Callable, tmp_path: Path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    ended = rushlight("aot", str(script), "-o", str(tmp_path / "build"), "--name", "net", "--check")
    assert ended.status == 0, ended.out
    assert "cc and Rushlight agree to the bit" in ended.out
    assert (tmp_path / "build" / "net.h").exists()


def test_aot_takes_saved_programs(rushlight: Callable, tmp_path: Path):
    rl.export.save(rl.export.export(rl.sin, (rl.ones(3),)), tmp_path / "program.safetensors")
    ended = rushlight("aot", str(tmp_path / "program.safetensors"), "-o", str(tmp_path / "build"), "--embed")
    assert ended.status == 0, ended.out
    assert (tmp_path / "build" / "model.o").exists()


def test_aot_asks_which_program_a_script_means(rushlight: Callable, tmp_path: Path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT + "other = program\n")
    ended = rushlight("aot", str(script), "-o", str(tmp_path / "build"))
    assert ended.status != 0
    assert "has 2 exported programs" in ended.out + ended.err
    ended = rushlight("aot", str(tmp_path / "missing.py"))
    assert ended.status == 1
    assert "there is no file" in ended.out + ended.err
    ended = rushlight("aot", f"{script}:other", "-o", str(tmp_path / "build"))
    assert ended.status == 0
