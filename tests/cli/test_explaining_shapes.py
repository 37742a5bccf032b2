"""`rushlight explain --shapes SCRIPT`."""

from collections.abc import Callable
from pathlib import Path

SCRIPT = """
import sys
import rushlight as rl
from rushlight.compiler import mark_unbacked

attention = rl.nn.functional.scaled_dot_product_attention

@rl.compile
def branching(x, counts):
    n = counts.max().item()
    rl.check(n >= 0)
    if x.shape[0] < 1024:
        x = x * 2
    return x[x > 0], rl.ones(n)

@rl.compile
def attend(q, k):
    return attention(q, k, k, enable_gqa=True)

@rl.compile(specs=["f32[1, D]", "f32[B, D] where B >= 2, D % 8 == 0"])
def specified(x):
    return x.reshape(-1, 4, 2)

q, k = rl.ones(1, 4, 5, 8), rl.ones(1, 2, 5, 8)
mark_unbacked(q, 1, max=64, hint=8)
mark_unbacked(k, 1)
branching(rl.ones(3, 2), rl.tensor([1, 2]))
attend(q, k)
specified(rl.ones(2, 16))
print(sys.argv[1:])
"""


def told(tmp_path: Path, rushlight: Callable, *options: str) -> str:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    ended = rushlight("explain", *options, str(script), "--shapes", "9")
    assert ended.status == 0, ended.err
    assert ended.out == "['--shapes', '9']\n"  # what follows the script is the script's
    return ended.err


def test_shapes_are_listed_after_what_was_compiled(tmp_path: Path, rushlight: Callable):
    plain, shapes = told(tmp_path, rushlight), told(tmp_path, rushlight, "--shapes")
    assert "sizes:" not in plain and "left open:" not in plain
    assert "compiled: 3 graphs" in plain and "compiled: 3 graphs" in shapes
    assert shapes.index("cache: ") < shapes.index("\nattend:") < shapes.index("\nbranching:")


def function_of(text: str, name: str) -> str:
    """What is said of one function, without the script's lines."""
    lines = text[text.index(f"\n{name}:\n") + 1 :].splitlines()
    last = next((place for place, line in enumerate(lines[1:], 1) if not line.startswith(" ")), len(lines))
    return "\n".join(lines[:last])


def test_each_size_guard_and_assert_has_its_line(tmp_path: Path, rushlight: Callable):
    text = told(tmp_path, rushlight, "--shapes")
    assert (
        function_of(text, "branching")
        == """\
branching:
  graph 1
    sizes:
      a0_0: backed; here 3; >= 0; <= 1023; x.shape[0], dim 0 of argument 0
      a0_1: backed; here 2; >= 0; x.shape[1], dim 1 of argument 0
      a1_0: backed; here 2; >= 1; counts.shape[0], dim 0 of argument 1
      u0: unbacked; >= 0; item() of max(), script.py:10 in branching:  n = counts.max().item()
      u1: unbacked; >= 0; a size of flatnonzero() of gt(), script.py:14 in branching:  return x[x > 0], rl.ones(n)
    guards:
      a1_0 != 0 (amax: there is an element to choose from), script.py:10 in branching:  n = counts.max().item()
      a0_0 < 1024, script.py:12 in branching:  if x.shape[0] < 1024:
    asserted at run time:
      u0 >= 0, script.py:11 in branching:  rl.check(n >= 0)"""
    )


def test_what_was_left_open_says_what_to_write(tmp_path: Path, rushlight: Callable):
    attend = function_of(told(tmp_path, rushlight, "--shapes"), "attend")
    line = "script.py:18 in attend:  return attention(q, k, k, enable_gqa=True)"
    assert "a0_1: unbacked; hint 8; >= 0; <= 64; q.shape[1], dim 1 of argument 0, marked unbacked\n" in attend
    assert f"a0_1%a1_1 == 0, {line}\n" in attend
    reason = "attention: as many key heads as query heads; else each is repeated"
    assert attend.endswith(
        f"""
    left open:
      2x a0_1 == a1_1, asked by scaled_dot_product_attention ({reason}), {line}
        write rl.check(k.shape[1] == q.shape[1])"""
    )


def test_variables_of_specifications_are_listed(tmp_path: Path, rushlight: Callable):
    specified = function_of(told(tmp_path, rushlight, "--shapes"), "specified")
    spec = "f32[B, D] where B >= 2, D % 8 == 0"
    assert f"B: unbacked; >= 2; dim 0 of argument 0 in {spec}\n" in specified
    assert f"D: unbacked; >= 0; a multiple of 8; dim 1 of argument 0 in {spec}" in specified
    assert "guards:" not in specified
