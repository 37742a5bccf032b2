"""`rushlight explain SCRIPT`."""

from collections.abc import Callable
from pathlib import Path

SCRIPT = """
import sys
import rushlight as rl

@rl.compile
def double(x, flag):
    return x * 2 if flag else x + 1

def main():
    print(double(rl.ones(3), True).sum().item(), sys.argv[1:])
    double(rl.ones(4), False)

main()
"""


def test_explain_runs_the_script_and_says_what_was_compiled(tmp_path: Path, rushlight: Callable):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    ended = rushlight("explain", str(script), "--speed", "9")
    assert ended.status == 0, ended.err
    assert ended.out == "6.0 ['--speed', '9']\n"
    assert "double: 2 graphs" in ended.err
    assert "kernels in" in ended.err
    assert "guards:" in ended.err
    assert "compiled again because:\n  1x a1 is not True\n" in ended.err
    assert "cache:" in ended.err


def test_explain_says_what_stages_took_cold_and_warm(tmp_path: Path, cache: Path, rushlight: Callable):
    script = tmp_path / "script.py"
    script.write_text("import rushlight as rl\nrl.compile(lambda x: (x * 3).exp())(rl.ones(2))\n")
    cold, warm = (_stages(rushlight("explain", str(script)).err) for _ in range(2))
    assert {"capture", "key", "cache", "lower", "fuse", "tile", "emit", "LLVM", "cores", "load"} <= set(cold)
    assert all(ms >= 0 for ms in cold.values())
    assert cold["LLVM"] > 1
    assert "capture" in warm
    assert {"lower", "tile", "emit", "LLVM"}.isdisjoint(warm)


def _stages(text: str) -> dict[str, float]:
    lines = text.split("CPU time by stage, in ms:\n")[1].splitlines()
    return {name.strip(): float(ms) for name, ms in (line.split(":") for line in lines)}


def test_explain_says_what_is_kept(tmp_path: Path, rushlight: Callable):
    script = tmp_path / "script.py"
    model = "model = rl.compile(rl.nn.Linear(128, 256), freeze=True)"
    script.write_text(f"import rushlight as rl\n{model}\nmodel(rl.ones(2, 128))\n")
    ended = rushlight("explain", str(script))
    assert ended.status == 0, ended.err
    assert "keeps 1 values made of frozen tensors, 131,072 bytes" in ended.err


def test_a_script_that_fails_is_shown_and_explained(tmp_path: Path, rushlight: Callable):
    script = tmp_path / "script.py"
    script.write_text("import rushlight as rl\nrl.compile(lambda x: x + 1)(rl.ones(2))\nraise ValueError('mine')\n")
    ended = rushlight("explain", str(script))
    assert ended.status == 1
    assert "ValueError: mine" in ended.err
    assert "compiled:" in ended.err


def test_a_script_may_exit(tmp_path: Path, rushlight: Callable):
    script = tmp_path / "script.py"
    script.write_text("import sys\nsys.exit(7)\n")
    assert rushlight("explain", str(script)).status == 7


def test_a_missing_script_is_an_error(tmp_path: Path, rushlight: Callable):
    ended = rushlight("explain", str(tmp_path / "nowhere.py"))
    assert ended.status == 1
    assert ended.err.startswith("error A002: ")
