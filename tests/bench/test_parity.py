"""Sizes that nobody knows give the code that sizes of an example give, and what says so can tell code apart."""

import re
import subprocess
import sys
from collections.abc import Callable

import pytest

from rushlight.bench.llvm_text import functions_of
from rushlight.bench.models import MODELS
from rushlight.bench.parity import (
    PRESETS,
    Code,
    Compiled,
    Parity,
    Times,
    as_table,
    compare,
    other_sizes,
    parity_of,
)

MODULE = """
declare void @rushlight_gemm_8(ptr)
define void @kernel_0(ptr noalias %args, i64 %begin) nounwind {
  %v1 = add i64 %begin, 7
  br label %b3
b3:
  store i64 %v1, ptr %args, align 8
  ret void
}
define i64 @entry(ptr noalias %ctx, ptr noalias %descriptors) nounwind {
  %v1 = load i64, ptr %descriptors, align 8
  %v2 = mul i64 %v1, 4
  %v3 = call i64 @llvm.smax.i64(i64 %v2, i64 64)
  store i64 %v3, ptr %ctx, align 8
  call void @kernel_0(ptr %ctx, i64 %v2)
  ret i64 0
}
"""
# Asks for more than MODULE and computes the same, a product of it earlier.
ASSERTING = MODULE.replace(
    "  %v2 = mul i64 %v1, 4\n",
    """  %v20 = mul i64 %v1, 4
  %v21 = icmp sge i64 %v20, 8
  br i1 %v21, label %b23, label %b22
b22:
  ret i64 17
b23:
  %v2 = mul i64 %v1, 4
""",
)


@pytest.mark.generated
@pytest.mark.row("10.4")
@pytest.mark.parametrize("name", MODELS)
def test_open_sizes_have_the_code_of_backed_ones_in_one_graph(name: str):
    found = parity_of(name, "tiny", 0, 0.0)
    assert found.code.difference == ()
    assert found.code.functions > 10
    assert found.graphs == 1
    assert found.holds


def test_code_does_not_depend_on_what_was_compiled_before():
    script = "from rushlight.bench.parity import parity_of; print(parity_of('gpt', 'tiny', 0, 0.0).code.difference)"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout == "()\n"  # of the first compilation in a process, and the second


def test_constant_sizes_have_other_code():
    record, sizes = MODELS["gpt"], PRESETS["tiny"]["gpt"]
    model = record.make().eval()
    code = compare(*[Compiled(model, record, kind).first_call(sizes) for kind in ("unbacked", "constant")])
    assert code.difference
    assert code.asserts[0] > code.asserts[1]


def test_names_and_numbers_make_no_difference():
    other = MODULE.replace("%v", "%value").replace("b3", "b17").replace("kernel_0", "kernel_5")
    assert compare([MODULE], [other]) == Code(3, (), (0, 0))


def test_asserts_are_counted_and_make_no_difference():
    assert compare([MODULE], [ASSERTING]) == Code(3, (), (0, 1))
    assert compare([ASSERTING], [ASSERTING]) == Code(3, (), (1, 1))


@pytest.mark.parametrize(
    "change",
    [
        ("%begin, 7", "%begin, 8"),
        ("mul i64 %v1, 4", "mul i64 %v1, 8"),
        ("ptr %ctx, i64 %v2)", "ptr %ctx, i64 %v3)"),
        ("rushlight_gemm_8", "rushlight_gemm_16"),
        ("store i64 %v3, ptr %ctx, align 8\n", ""),
        ("ret i64 0", "ret i64 1"),
    ],
)
def test_what_is_computed_makes_one(change: tuple[str, str]):
    assert MODULE.count(change[0]) == 1
    code = compare([MODULE], [MODULE.replace(*change)])
    assert any(line.startswith(("-", "+")) for line in code.difference[2:])


def test_a_function_too_many_is_a_difference():
    assert compare([MODULE], [MODULE, MODULE]).difference == ("3 functions, and 6",)


def test_returns_that_are_no_asserts_stay():
    arena = re.sub("ret i64 17", "ret i64 1", ASSERTING)
    entry = functions_of(arena)[-1]
    assert entry.asserts == 0
    assert "ret i64 1" in entry.lines


@pytest.mark.parametrize("name", MODELS)
def test_other_sizes_are_allowed_and_differ(name: str):
    extents = MODELS[name].sizes.values()
    for preset in PRESETS.values():
        found = other_sizes(MODELS[name], preset[name])
        assert found[0] == tuple(extent.least for extent in extents)
        assert len({preset[name], *found}) == 4
        for sizes in found:
            assert all(
                extent.least <= size <= (extent.most or size) for extent, size in zip(extents, sizes, strict=True)
            )


@pytest.mark.row("10.4")
def test_a_slower_artifact_a_second_graph_and_other_code_are_no_parity():
    same, times = Code(3, (), (0, 0)), Times([1.0, 1.02, 1.0], [1.0, 1.0, 1.0])
    assert Parity("gpt", same, 1, times).holds
    assert not Parity("gpt", same, 2, times).holds
    assert not Parity("gpt", same._replace(difference=("- one",)), 1, times).holds
    slow = Parity("gpt", same, 1, Times([1.05, 1.06, 1.0], [1.0, 1.0, 1.0]))
    assert not slow.holds
    assert as_table([slow]).rows[1][-2:] == ["1.050", "slower"]


def test_the_command_ends_with_what_it_found(rushlight: Callable):
    ended = rushlight("bench", "parity", "--models", "lstm", "--size", "tiny", "--rounds", "1")
    assert re.match(r"lstm +\d\d +same ", ended.out.splitlines()[1])
    assert len(re.findall(r"\d (?:µs|ms)\b", ended.out)) == 2
    assert ended.status == (0 if ended.out.splitlines()[1].split()[-1] not in ("slower", "faster") else 1)
    for wrong in (("--models", "gtp"), ("--size", "large")):
        refused = rushlight("bench", "parity", *wrong)
        assert refused.status == 1
        assert refused.err.startswith("error A002: ")
