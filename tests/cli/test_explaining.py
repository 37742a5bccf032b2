"""`rushlight explain SCRIPT`."""

from collections.abc import Callable
from pathlib import Path

import rushlight as rl

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
    assert "compiled again because:\n  1x flag is not True (constant)\n" in ended.err
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
    stages = text.split("CPU time by stage, in ms: ")[1].splitlines()[0].split(", ")
    return {name: float(ms) for name, ms in (stage.rsplit(" ", 1) for stage in stages)}


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


PARTS = """
import rushlight as rl

def step(x, rate, note):
    y = x * rate
    rl.compiler.graph_break()
    z = y.relu() if y.sum() > 0 else y
    print(end="")
    return z + 1

compiled = rl.compile(step, fullgraph=False)
compiled(rl.ones(3), 2.0, "first")
compiled(rl.ones(3).double(), 2.0, "first")
compiled(rl.ones(3, 3), 2.0, "first")
"""


def test_breaks_recompiles_and_dead_guards_are_told_in_thirty_lines_and_as_a_page(tmp_path: Path, rushlight: Callable):
    script, page = tmp_path / "script.py", tmp_path / "page.html"
    script.write_text(PARTS)
    ended = rushlight("explain", "--html", str(page), str(script))
    assert ended.status == 0, ended.err
    lines = ended.err.strip().splitlines()
    assert len(lines) < 30, ended.err
    shown = page.read_text()
    for code, line in [("B021", "rl.compiler.graph_break()"), ("B001", "z = y.relu() if"), ("B002", 'print(end="")')]:
        (number,) = [number for number, text in enumerate(lines) if text.endswith(f"({code})")]
        assert line in lines[number + 1]
        assert f"<td>{code}</td>" in shown
    text = "\n".join(lines)
    assert "x is float64, not float32" in text and "x has 2 dims, not 1, as graph 1 of 2 has it" in text, text
    assert "note is 'first': the function does not read it (constant)" in text
    assert "does not read it</td>" in shown


def test_a_call_is_explained():
    def program(x):
        y = x + 1
        print(end="")
        return y * 2

    explained = rl.compiler.explain(program)(rl.ones(3))
    assert explained.graph_count == 2
    assert explained.graph_break_count == 1
    assert "B002" in str(explained)
    assert str(rl.compiler.explain(program, rl.ones(3))).startswith("compiled: 2 graphs")
    assert "<td>B002</td>" in explained.html()
