"""Bands that come in order add up to what whole products are, bit for bit."""

from collections.abc import Callable

from rushlight.build.pipeline import run_passes
from rushlight.ir.graph_parse import parse_graph
from rushlight.ir.outline import plan_outline
from rushlight.ir.plan import BandKernel, Plan
from rushlight.ir.target import Target
from rushlight.ops.record import OPERATORS

TARGET = Target("x86_64-unknown-linux-gnu", "x86-64-v4", "", 64)
GRADIENTS = """\
g(%q: f32[s0, s1, 64], %k: f32[s0, s2, 64], %g: f32[s0, s1, 64]) {
  size s0 = 12
  size s1 = 1024
  size s2 = 1024
  %0 = transpose(%k) {dim0=-2, dim1=-1} : f32[s0, 64, s2] strides [s2*64, 1, 64]
  %1 = matmul(%q, %0) : f32[s0, s1, s2]
  %2 = SOFTMAX : f32[s0, s1, s2]
  %3 = transpose(%2) {dim0=-2, dim1=-1} : f32[s0, s2, s1] strides [s1*s2, 1, s2]
  %4 = matmul(%3, %g) : f32[s0, s2, 64]
  return RESULTS
}"""


def planned(softmax: str, results: str) -> Plan:
    """The plan of a gradient of values, which sums over the rows."""
    text = GRADIENTS.replace("SOFTMAX", softmax).replace("RESULTS", results)
    return run_passes(parse_graph(text, OPERATORS), TARGET, until="07-tiled.ir")


def bands(plan: Plan) -> BandKernel:
    """Its bands."""
    (found,) = (kernel for kernel in plan.kernels if isinstance(kernel, BandKernel))
    return found


def test_bands_in_order_add_to_a_sum(golden: Callable[[str, str], None]):
    plan = planned("causal_softmax(%1)", "%4")
    assert bands(plan).in_order
    golden("band_sums.txt", plan_outline(plan))


def test_a_sum_ends_at_the_reach():
    found = bands(planned("causal_softmax(%1)", "%4"))
    assert found.reach is not None
    assert all(found.reach.symbol in launch.arguments for launch in found.launches[:2])
    assert found.reach.symbol in found.launches[3].arguments, "beyond, a band has nothing to add"


def test_without_a_condition_there_is_no_reach():
    found = bands(planned("softmax(%1) {dim=-1}", "%4"))
    assert found.in_order
    assert found.reach is None


def test_what_is_made_of_a_sum_runs_after_all_bands():
    text = GRADIENTS.replace("SOFTMAX", "softmax(%1) {dim=-1}")
    text = text.replace("return RESULTS", "%5 = exp(%4) : f32[s0, s2, 64]\n  return %5")
    plan = run_passes(parse_graph(text, OPERATORS), TARGET, until="07-tiled.ir")
    assert not bands(plan).in_order, "the product stores what its epilogue makes of the whole sum"
