"""What later passes over a row ask memory for, and what loops that wait for memory do besides."""

from __future__ import annotations

import re

import numpy as np
import pytest

import rushlight as rl
from rushlight.build.pipeline import run_passes
from rushlight.ir.graph_parse import parse_graph
from rushlight.ops.record import OPERATORS
from rushlight.runtime import llvm

PROGRAM = """\
g(%x: f32[s0, s1], %y: f32[s0, s1]) {
  size s0 = 64
  size s1 = 128
BODY
}"""
PREFETCH = "@llvm.prefetch"
SOFTMAX = "  %0 = softmax(%x) {dim=1} : f32[s0, s1]\n  return %0"
MEAN = "  %0 = mean(%x) {dim=[1], keepdim=true} : f32[s0, 1]\n  %1 = div(%x, %0) : f32[s0, s1]\n  return %1"
SUM = "  %0 = exp(%x) : f32[s0, s1]\n  %1 = sum(%0) {dim=[1], keepdim=false} : f32[s0]\n  return %1"
ROWS = "  %0 = mul(%x, %y) : f32[s0, s1]\n  %1 = sum(%0) {dim=[0], keepdim=false} : f32[s1]\n  return %1"
PRODUCT = "  %0 = mul(%x, %y) : f32[s0, s1]\n  return %0"


def code_of(body: str, level: str = "x86-64-v4") -> str:
    """LLVM IR of a program over rows."""
    graph = parse_graph(PROGRAM.replace("BODY", body), OPERATORS)
    return run_passes(graph, llvm.target_named(level)).text


def test_only_long_later_passes_read_ahead():
    for level in ("x86-64-v3", "x86-64-v4"):
        assert code_of(SOFTMAX, level).count("call void " + PREFETCH) == 4  # 64 elements are four lines
    for body in (MEAN, SUM, PRODUCT, ROWS):
        assert PREFETCH not in code_of(body)


@pytest.mark.parametrize("level", ["x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("body", [ROWS, PRODUCT])
def test_loops_that_wait_for_memory_keep_vectors_in_registers(body: str, level: str):
    text = llvm.assembly(code_of(body, level), llvm.target_named(level))
    vectors = [line for line in text.splitlines() if re.search(r"[yz]mm\d", line)]
    assert len(vectors) > 8
    assert not [line for line in vectors if re.search(r"\(%[re][sb]p\)", line)]


@pytest.mark.parametrize("shape", [(1, 1), (1, 4096), (3, 64), (7, 67), (2, 16384), (2, 40000), (300, 130)])
def test_rows_of_any_length_have_the_bits_of_one_alone(shape: tuple[int, int]):
    x = rl.from_numpy(np.random.default_rng(0).standard_normal(shape).astype("float32"))
    softmax = rl.compile(lambda x: rl.softmax(x, -1))
    found = softmax(x).numpy()
    for row in range(0, shape[0], 37):
        np.testing.assert_array_equal(found[row : row + 1], softmax(x[row : row + 1].clone()).numpy())
    np.testing.assert_array_equal(found, rl.softmax(x, -1).numpy())
