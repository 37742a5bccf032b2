"""float32 results have the same bits on every target: AVX2 beside what this machine has.

The whole matrix can be run for a target too: `RUSHLIGHT_TARGET=x86-64-v3 pytest tests/matrix`.
"""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from matrix import repro
from matrix_cases import parse_case
from matrix_digest import digests, own_operators

PARTS = 12
TREE = Path(__file__).parents[2]


@pytest.mark.generated
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the other target is one of x86-64")
@pytest.mark.parametrize("part", range(PARTS))
def test_same_bits_on_avx2(part):
    """Results and gradients in this process against those of one that generates code for x86-64-v3."""
    path = os.pathsep.join([str(TREE / "src"), str(TREE / "tests" / "harness")])
    environment = {**os.environ, "PYTHONPATH": path, "RUSHLIGHT_TARGET": "x86-64-v3"}
    command = [sys.executable, "-m", "matrix_digest", str(part), str(PARTS)]
    other = subprocess.Popen(
        command, env=environment, cwd=TREE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    here = digests(own_operators()[part::PARTS])
    output, errors = other.communicate(timeout=280)
    assert other.returncode == 0, errors[-2000:]
    there = json.loads(output)
    assert here.keys() == there.keys()
    wrong = [name for name in here if here[name] != there[name]]
    lines = [f"{name}\n    RUSHLIGHT_TARGET=x86-64-v3 {repro('eager', _case(name))}" for name in wrong]
    assert not wrong, f"{len(wrong)} of {len(here)} differ:\n" + "\n".join(lines)
    assert len(here) > 30


def _case(name):
    op, case = name.split(" ")
    return parse_case(op, case)
