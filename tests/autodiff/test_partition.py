"""Cutting joint graphs: what is kept and what made again, that no cut keeps fewer bytes, that bits do not change."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rushlight as rl
from rushlight import nn
from rushlight.autodiff.budget import Choices, time_of
from rushlight.autodiff.cut import is_cheap, kept_bytes, minimum_cut
from rushlight.autodiff.partition import Split, late_calls, split_joint
from rushlight.capture.function import building
from rushlight.ir.dtype import float32
from rushlight.ir.graph import PARAMETER, Call, Graph, parameter
from rushlight.ir.graph_parse import parse_graph
from rushlight.ir.text import format_graph
from rushlight.ir.type import TensorType
from rushlight.ir.verify import verify_graph
from rushlight.nn import functional as F
from rushlight.ops.record import OPERATORS
from rushlight.runtime import allocator
from rushlight.term import Op, postorder


def _joint(text: str, outputs: int, tangents: int, **options: Any) -> Split:
    joint = parse_graph(text, OPERATORS)
    verify_graph(joint)
    split = split_joint(joint, outputs, tangents, **options)
    verify_graph(split.forward)
    verify_graph(split.backward)
    return split


def _text(split: Split) -> str:
    kept = f"kept: inputs {list(split.inputs)}, outputs of the forward graph {list(split.saved)}"
    sizes = f", sizes {[str(size.facts.name) for size in split.sizes]}" if split.sizes else ""
    return f"{format_graph(split.forward)}\n\n{format_graph(split.backward)}\n\n{kept}{sizes}"


# y = gelu(x @ w): of the product and its gelu only the product is kept; the rest is made again.
GELU = """\
joint(%x: f32[s0, 64], %w: f32[64, 256], %v: f32[256, 8], %t: f32[s0, 8]) {
  size s0 = 128
  %0 = matmul(%x, %w) : f32[s0, 256]
  %1 = gelu(%0) {approximate="none"} : f32[s0, 256]
  %2 = matmul(%1, %v) : f32[s0, 8]
  %3 = transpose(%v) {dim0=0, dim1=1} : f32[8, 256] strides [1, 8]
  %4 = matmul(%t, %3) : f32[s0, 256]
  %5 = transpose(%1) {dim0=0, dim1=1} : f32[256, s0] strides [1, 256]
  %6 = matmul(%5, %t) : f32[256, 8]
  %7 = exp(%0) : f32[s0, 256]
  %8 = mul(%4, %7) : f32[s0, 256]
  return %2, %8, %6
}"""

# A mask of bools costs a quarter of what it is made from.
MASK = """\
joint(%x: f32[1024], %t: f32[1024]) {
  %0 = exp(%x) : f32[1024]
  %1 = gt(%0, 2.0) : bool[1024]
  %2 = cumsum(%0) {dim=0} : f32[1024]
  %3 = where(%1, %t, 0.0) : f32[1024]
  return %2, %3
}"""

# A row's mean is small: broadcasting it again is better than keeping what it was broadcast to.
ROWS = """\
joint(%x: f32[s0, 512], %t: f32[s0, 512]) {
  size s0 = 64
  %0 = mean(%x) {dim=[1], keepdim=true} : f32[s0, 1]
  %1 = expand(%0) {size=[`s0`, 512]} : f32[s0, 512] strides [1, 0]
  %2 = sub(%x, %1, none) : f32[s0, 512]
  %3 = mul(%t, %1) : f32[s0, 512]
  return %2, %3
}"""


@pytest.mark.parametrize(("name", "text"), [("gelu", GELU), ("mask", MASK), ("rows", ROWS)])
def test_what_is_kept_is_golden(name: str, text: str, golden: Any):
    golden(f"partition-{name}.ir", _text(_joint(text, 1, 1)))


def test_without_recompute_only_views_are_made_again():
    split = _joint(GELU, 1, 1, recompute=False)
    names = [call.op.name for call in split.backward.calls]
    assert "gelu" not in names and "transpose" in names
    assert len(split.saved) == 2 and split.inputs == (2,)


WAITING = """\
joint(%x: f32[64, 8], %w: f32[8, 512], %t: f32[64, 512]) {
  %0 = sum(%x) {dim=[1], keepdim=false} : f32[64]
  %1 = matmul(%x, %w) : f32[64, 512]
  %2 = mul(%t, %1) : f32[64, 512]
  return %0, %2
}"""


@pytest.mark.parametrize("recompute", [False, True])
def test_what_only_the_backward_pass_needs_is_made_there_if_it_is_larger_than_what_it_is_made_of(recompute: bool):
    split = _joint(WAITING, 1, 1, recompute=recompute)
    assert split.inputs == (0, 1)
    assert split.saved == ()
    assert [call.op.name for call in split.backward.calls] == ["matmul", "mul"]


def test_parameters_that_live_on_are_free():
    text = """\
joint(%x: f32[64], %w: f32[64], %t: f32[64]) {
  %0 = mul(%x, %w) : f32[64]
  %1 = exp(%0) : f32[64]
  %2 = mul(%t, %1) : f32[64]
  return %1, %2
}"""
    # One value against two inputs: the result is kept. Where both inputs live on, they cost nothing.
    assert _joint(text, 1, 1).saved == (0,)
    living = _joint(text, 1, 1, living=(0, 1))
    assert living.saved == () and living.inputs == (0, 1)


def test_an_input_that_is_written_to_is_saved_before():
    text = """\
joint(%x: f32[8], %t: f32[8]) {
  %0 = add(%x, 1.0, none) : f32[8]
  %1 = mul(%t, %x) : f32[8]
  return %0, %1
  write %x <- %0
}"""
    split = _joint(text, 1, 1)
    assert split.inputs == () and split.saved == (1,)
    assert split.forward.outputs[1] is split.forward.parameters[0]
    assert split.forward.mutations and not split.backward.mutations


def test_an_expanded_value_is_kept_row_major():
    text = """\
joint(%x: f32[8], %t: f32[8, 4]) {
  %0 = cumsum(%x) {dim=0} : f32[8]
  %1 = unsqueeze(%0) {dim=1} : f32[8, 1]
  %2 = expand(%1) {size=[8, 4]} : f32[8, 4] strides [1, 0]
  %3 = mul(%t, %2) : f32[8, 4]
  return %2, %3
}"""
    split = _joint(text, 1, 1)
    assert [call.type.shape for call in split.forward.outputs] == [(8, 4), (8,)]  # the base, not the expansion


# The cut is a minimum: against every subset of values.

OP = Op("made")


@st.composite
def networks(draw: st.DrawFn) -> tuple[list[Call], list[Call], list[Call], set[int]]:
    """Values (inputs first), required ones, free ones, and the ids of those that may be made again."""
    values: list[Call] = []
    repeatable: set[int] = set()
    inputs = draw(st.integers(1, 3))
    for place in range(draw(st.integers(inputs, 11))):
        type_ = TensorType((draw(st.integers(1, 9)),), float32)
        if place < inputs:
            values.append(parameter(f"in{place}", type_))
            continue
        operands = tuple(draw(st.lists(st.sampled_from(values), min_size=0, max_size=3)))
        values.append(Call(OP, operands, (), type_))
        if draw(st.booleans()):
            repeatable.add(id(values[-1]))
    required = draw(st.lists(st.sampled_from(values), min_size=1, max_size=4))
    free = draw(st.lists(st.sampled_from(values[:inputs]), max_size=2))
    return values, required, free, repeatable


def _suffices(kept: set[int], required: list[Call], repeatable: set[int]) -> bool:
    stack = list(required)
    while stack:
        call = stack.pop()
        if id(call) in kept:
            continue
        if id(call) not in repeatable:
            return False
        stack.extend(call.inputs())
    return True


def _bytes(kept: Any, free: list[Call]) -> int:
    unpriced = {id(call) for call in free}
    return sum([0 if id(call) in unpriced else kept_bytes(call) for call in kept])


@given(networks())
def test_no_choice_keeps_fewer_bytes(network: Any):
    values, required, free, repeatable = network
    found = minimum_cut(values, required, free, lambda call: Fraction(0) if id(call) in repeatable else None)
    assert _suffices({id(call) for call in found}, required, repeatable)
    best = min(
        _bytes(kept, free)
        for count in range(len(values) + 1)
        for kept in combinations(values, count)
        if _suffices({id(call) for call in kept}, required, repeatable)
    )
    assert _bytes(found, free) == best


# With a budget: against every subset of values of the graph.


@st.composite
def joint_graphs(draw: st.DrawFn) -> Graph:
    """A joint graph of at most 12 nodes: layers of a random function, then a backward pass that reads some."""
    size = draw(st.sampled_from([2, 3, 5]))
    square = TensorType((size, size), float32)
    parameters = [parameter(f"x{place}", square) for place in range(draw(st.integers(1, 2)))]
    tangent = parameter("t", square)
    values, calls = list(parameters), list[Call]()
    for _ in range(draw(st.integers(1, 6))):
        op = OPERATORS[draw(st.sampled_from(["matmul", "exp", "mul", "sum"]))]
        x = draw(st.sampled_from(values))
        if op.name == "sum":
            attrs = (("dim", (1,)), ("keepdim", True), ("dtype", None))
            call = Call(op, (x,), attrs, TensorType((x.type.shape[0], 1), float32))
        elif op.name == "exp":
            call = Call(op, (x,), (), x.type)
        else:
            y = draw(st.sampled_from([one for one in values if one.type is square]))
            x = draw(st.sampled_from([one for one in values if one.type is square]))
            call = Call(op, (x, y), (), square)
        values.append(call)
        calls.append(call)
    gradient = tangent
    for _ in range(draw(st.integers(1, 3))):
        gradient = Call(OPERATORS["mul"], (gradient, draw(st.sampled_from(values))), (), square)
        calls.append(gradient)
    return Graph((*parameters, tangent), tuple(calls), (values[-1], gradient))


def _found_by_hand(joint: Graph, budget: float) -> tuple[int, int]:
    """Of all sets of values that may be kept within a budget: the least time, and the fewest bytes with that."""
    count = len(joint.parameters) - 1
    late = late_calls(joint.parameters[count:], joint.calls)
    early = [*joint.parameters[:count], *[call for call in joint.calls if id(call) not in late]]
    required = [one for call in joint.calls if id(call) in late for one in call.inputs() if id(one) not in late]
    once: set[int] = set()
    stack = list(joint.outputs[:1])
    while stack:
        once.add(id(stack[-1]))
        stack.extend(stack.pop().inputs())

    def time(kept: tuple[Call, ...]) -> int | None:
        total, seen, stack = 0, set(map(id, kept)), list(required)
        while stack:
            call = stack.pop()
            if id(call) in seen:
                continue
            seen.add(id(call))
            if call.op.name == "parameter":
                return None
            total += 0 if is_cheap(call) or id(call) not in once else time_of(call)
            stack.extend(call.inputs())
        return total

    sets = [kept for size in range(len(early) + 1) for kept in combinations(early, size)]
    sizes = {kept: sum(map(kept_bytes, kept)) for kept in sets}
    times = {kept: made for kept in sets if (made := time(kept)) is not None}
    most = min(sizes[kept] for kept in times if times[kept] == 0)
    fewest = min(sizes[kept] for kept in times)
    allowed = fewest + Fraction(budget).limit_denominator(1 << 20) * (most - fewest)
    return min((times[kept], sizes[kept]) for kept in times if sizes[kept] <= allowed)


@pytest.mark.row("2.8")
@settings(deadline=None)
@given(joint_graphs(), st.sampled_from([0.0, 0.25, 0.5, 0.9, 1.0]))
def test_what_is_kept_within_a_budget_is_what_a_search_finds(joint: Graph, budget: float):
    split = split_joint(joint, 1, 1, budget=budget)
    early = {id(call) for call in split._kept}
    time, nbytes = _found_by_hand(joint, budget)
    late = late_calls(joint.parameters[-1:], joint.calls)
    required = [one for call in joint.calls if id(call) in late for one in call.inputs() if id(one) not in late]
    assert sum(map(kept_bytes, split._kept)) == nbytes
    once = {id(call) for call in postorder([joint.outputs[0]], lambda call: tuple(call.inputs()))}
    made = postorder(required, lambda call: () if id(call) in early else tuple(call.inputs()))
    again = [call for call in made if id(call) not in early]
    assert sum([0 if is_cheap(call) or id(call) not in once else time_of(call) for call in again]) == time


@settings(deadline=None, max_examples=30)
@given(st.lists(st.sampled_from(["matmul", "exp", "mul"]), min_size=8, max_size=16), st.integers(0, 1 << 30))
def test_corners_of_the_hull_are_cuts_of_which_none_is_better(names: list[str], seed: int):
    rng = np.random.default_rng(seed)
    square = TensorType((4, 4), float32)
    values: list[Call] = [parameter(f"x{place}", square) for place in range(3)]
    for name in names:
        pair = [values[at] for at in rng.integers(0, len(values), 2)]
        values.append(Call(OPERATORS[name], tuple(pair if name != "exp" else pair[:1]), (), square))
    required = [values[at] for at in rng.integers(3, len(values), 5)]
    choices = Choices(values, required, [], is_cheap)
    found = [choices.within(budget) for budget in (1.0, 0.8, 0.6, 0.4, 0.2, 0.0)]
    nbytes = [sum(map(kept_bytes, kept)) for kept in found]
    times = [choices.time({id(call) for call in kept}) for kept in found]
    assert nbytes == sorted(nbytes, reverse=True)
    assert None not in times and times == sorted(times)
    most, fewest = nbytes[0], nbytes[-1]
    for share, kept in zip((1.0, 0.8, 0.6, 0.4, 0.2, 0.0), nbytes, strict=True):
        assert kept <= fewest + share * (most - fewest) + 1e-6


# Bits.


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.up = nn.Linear(16, 48)
        self.down = nn.Linear(48, 16)

    def forward(self, x: Any) -> Any:
        return x + self.down(F.gelu(self.up(self.norm(x)))) * rl.sigmoid(x)


def test_recomputing_changes_no_bit(monkeypatch: pytest.MonkeyPatch):
    rng = np.random.default_rng(0)
    block = Block()
    with rl.no_grad():
        for weight in block.parameters():
            weight.copy_(rl.tensor(rng.standard_normal(weight.shape).astype(np.float32)))
    x0 = rng.standard_normal((7, 16)).astype(np.float32)
    graphs: list[Graph] = []
    found: list[list[Any]] = []
    for recompute in (None, True, False):

        def split(joint: Graph, outputs: int, tangents: int, **options: Any) -> Split:
            made = split_joint(joint, outputs, tangents, **{**options, "recompute": recompute})  # noqa: B023 - called here
            graphs.append(made.backward)
            return made

        monkeypatch.setattr(building, "split_joint", split)
        block.zero_grad()
        x = rl.tensor(x0, requires_grad=True)
        (block if recompute is None else rl.compile(block))(x).square().sum().backward()
        found.append([x.grad.numpy(), *[weight.grad.numpy() for weight in block.parameters()]])
    recomputed, kept = graphs
    assert "gelu" in format_graph(recomputed) and "gelu(" not in format_graph(kept)
    for other in found[1:]:
        assert all(np.array_equal(one, two) for one, two in zip(found[0], other, strict=True))


def test_random_numbers_are_drawn_once_and_made_again_from_their_seed():
    model = nn.Sequential(nn.Linear(16, 16), nn.Dropout(0.5), nn.GELU())
    gradients: list[Any] = []
    for compiled in (False, True):
        rl.manual_seed(11)
        x = rl.ones(4, 16).requires_grad_()
        (rl.compile(model) if compiled else model)(x).sum().backward()
        gradients.append(x.grad.numpy())
    assert np.array_equal(*gradients)


@pytest.mark.parametrize("budget", [0.0, 0.5])
def test_a_budget_changes_no_bit_and_keeps_less(budget: float):
    block = Block()
    found: list[list[Any]] = []
    x0 = np.random.default_rng(1).standard_normal((7, 16)).astype(np.float32)
    for options in ({}, {"activation_memory_budget": budget}):
        block.zero_grad()
        x = rl.tensor(x0, requires_grad=True)
        rl.compile(block, options=options)(x).square().sum().backward()
        found.append([x.grad.numpy(), *[weight.grad.numpy() for weight in block.parameters()]])
    assert all(np.array_equal(one, two) for one, two in zip(*found, strict=True))
    with pytest.raises(rl.SettingError):
        rl.compile(block, options={"activation_memory_budget": 2})


class Layers(nn.Module):
    """Twelve layers that are alike; `wrap` is applied to each."""

    def __init__(self, wrap: Callable[[Any], Any] = lambda layer: layer) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Sequential(nn.Linear(32, 32), nn.GELU()) for _ in range(12)])
        self.calls = [wrap(layer) for layer in self.layers]

    def forward(self, x: Any) -> Any:
        for call in self.calls:
            x = call(x)
        return x


def peak_of(step: Callable[[], None]) -> int:
    """The most bytes that storages take in a step beyond those that are there before, once all is compiled."""
    for _ in range(2):
        step()
    gc.collect()
    allocator.CPU.reset_peak()
    before = allocator.CPU.statistics().used_bytes
    step()
    return allocator.CPU.statistics().peak_bytes - before


@pytest.mark.row("2.6")
def test_memory_over_a_sweep_of_budgets_is_what_the_plans_say(monkeypatch: pytest.MonkeyPatch):
    """Of all that a call leaves for its backward pass; the scratch memory of a pass is its own."""
    kept: list[int] = []

    def split(*given: Any, **options: Any) -> Split:
        made = split_joint(*given, **options)
        kept.append(sum([kept_bytes(call) for call in made._kept if call.op is not PARAMETER]))
        return made

    monkeypatch.setattr(building, "split_joint", split)
    x = rl.ones(4096, 32)
    peaks: list[int] = []
    for budget in (1.0, 0.75, 0.5, 0.25, 0.0):
        model = Layers()
        options = {"activation_memory_budget": budget, "dynamic": False}
        step = rl.compile(lambda x, model=model: model(x).square().mean(), options=options)
        peaks.append(peak_of(lambda model=model, step=step: (model.zero_grad(), step(x).backward())))
    assert peaks == sorted(peaks, reverse=True)
    for peak, nbytes, budget in zip(peaks, kept, (1.0, 0.75, 0.5, 0.25, 0.0), strict=True):
        assert abs(peak - nbytes) <= 0.05 * nbytes + 1024
        assert abs(peak - budget * peaks[0]) <= 0.05 * peaks[0]


@pytest.mark.row("11.5")
def test_activations_die_at_their_last_use():
    """In a backward pass through layers that are compiled one by one, as in eager code."""
    peaks: list[int] = []
    for wrap in (lambda layer: layer, rl.compile):
        model = Layers(wrap)
        outputs: list[weakref.ref[Any]] = []
        alive: list[int] = []

        def note(_: Any, outputs: list[Any] = outputs, alive: list[int] = alive) -> None:
            alive.append(sum([ref() is not None for ref in outputs]))

        x = rl.ones(256, 32)
        for call in model.calls:
            x = call(x)
            x.register_hook(note)
            outputs.append(weakref.ref(x.backing))
        x.square().mean().backward()
        assert len(alive) == 12
        assert alive == sorted(alive, reverse=True)
        assert alive[-1] <= 3 + (alive[0] == 12)
        peaks.append(peak_of(lambda: model(rl.ones(256, 32)).square().mean().backward()))  # noqa: B023
    assert peaks[1] <= 1.02 * peaks[0]
