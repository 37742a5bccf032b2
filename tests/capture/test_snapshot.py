"""Modules' state is asked for together, and one by one where that fails: both notice the same changes."""

from __future__ import annotations

import ast
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.capture.api import explain_entries
from rushlight.capture.entry.misses import miss_of
from rushlight.capture.state import snapshot


class Block(nn.Module):
    """A linear layer, a number, and a part that may be there."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.extra: Any = None
        self.factor = 2.5
        self.power = 1

    def forward(self, x: Any) -> Any:
        y = self.linear(x) * self.factor**self.power
        return y if self.extra is None else self.extra(y)


def another_float(block: Block) -> None:
    block.factor = float("2.5")


def reordered(block: Block) -> None:
    entries = vars(block)
    entries["factor"] = entries.pop("factor")


def the_same_again(block: Block) -> None:
    weight = block.linear.weight
    block.linear.weight = nn.Parameter(rl.zeros(3, 3))
    block.linear.weight = weight


def written_in_place(block: Block) -> None:
    with rl.no_grad():
        block.linear.weight.mul_(2.0)


def a_number(block: Block) -> None:
    block.factor = -0.5


def a_bool(block: Block) -> None:
    block.power = True


def an_equal_parameter(block: Block) -> None:
    block.linear.weight = nn.Parameter(block.linear.weight.detach().clone())


def other_memory(block: Block) -> None:
    block.linear.weight.data = rl.ones(3, 3)


def another_module(block: Block) -> None:
    block.linear = nn.Linear(3, 3)


def a_part(block: Block) -> None:
    block.extra = rl.tanh


def a_new_entry(block: Block) -> None:
    block.note = "new"


def evaluation(block: Block) -> None:
    block.eval()


def moved_entries(block: Block) -> None:
    """The keys and the values of all dicts, one after the other, stay what they were."""
    parameters, buffers = vars(block.linear)["_parameters"], vars(block.linear)["_buffers"]
    buffers["bias"] = parameters.pop("bias")


KEPT = [another_float, reordered, the_same_again, written_in_place, evaluation]  # nothing asks whether it trains
CHANGED = [a_number, a_bool, an_equal_parameter, other_memory, another_module, a_part, a_new_entry]


@pytest.mark.parametrize("calls", [1, 3])
@pytest.mark.parametrize(
    ("change", "graphs"), [*[(change, 1) for change in KEPT], *[(change, 2) for change in CHANGED]]
)
def test_changes_of_state(change: Callable[[Block], None], graphs: int, calls: int) -> None:
    block = Block()
    compiled = rl.compile(block, fullgraph=True)
    x = rl.randn(2, 3)
    for _ in range(calls):
        compiled(x)
    change(block)
    (entry,) = explain_entries(compiled)
    assert (miss_of(entry, (x,), {}) is not None) == (graphs == 2)
    assert rl.equal(compiled(x), block(x))
    assert len(explain_entries(compiled)) == graphs


@pytest.mark.parametrize("calls", [1, 3])
def test_entries_that_moved_are_noticed(calls: int) -> None:
    block = Block()
    compiled = rl.compile(block, fullgraph=True)
    x = rl.randn(2, 3)
    for _ in range(calls):
        compiled(x)
    moved_entries(block)
    (entry,) = explain_entries(compiled)
    guard = miss_of(entry, (x,), {}).guard
    assert guard.kind == "container" and guard.path.endswith(("_parameters", "_buffers"))


def test_guards_are_written_when_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Any] = []
    first = snapshot.StateGuards.guards
    monkeypatch.setattr(snapshot.StateGuards, "guards", lambda self, space: written.append(self) or first(self, space))
    block = Block()
    compiled = rl.compile(block)
    for _ in range(3):
        compiled(rl.ones(1, 3))
    assert not written
    another_float(block)
    compiled(rl.ones(1, 3))
    assert written
    (entry,) = explain_entries(compiled)
    assert "factor" not in entry.text
    assert any("factor" in guard.path for guard in entry.guards)


class Table(dict[str, float]):
    """A dict that may look entries up as it likes."""


@pytest.mark.parametrize("made", [dict, Table, OrderedDict, lambda **entries: defaultdict(float, entries)])
def test_any_class_of_dict_is_asked(made: Callable[..., Any]) -> None:
    block = Block()
    block.table = made(factor=2.5, other=1.5)
    compiled = rl.compile(lambda x: block(x) * block.table["factor"], fullgraph=True)
    x = rl.randn(2, 3)
    compiled(x)
    (entry,) = explain_entries(compiled)
    held = entry.state.snapshot
    assert held.holds()
    block.table["factor"] = 3.5
    assert not held.holds()
    assert rl.equal(compiled(x), block(x) * 3.5)
    del block.table["other"]
    assert not explain_entries(compiled)[-1].state.snapshot.holds()


def test_tensors_are_looked_at_after_some_tensor_moved() -> None:
    block, other = Block(), nn.Linear(3, 3)
    compiled = rl.compile(block)
    x = rl.randn(2, 3)
    compiled(x)
    (entry,) = explain_entries(compiled)
    held = entry.state.snapshot
    assert held.holds()
    other.weight.data = rl.ones(3, 3)
    assert held.holds()
    other_memory(block)
    assert not held.holds()


def test_nothing_else_gives_a_tensor_other_memory() -> None:
    root = Path(snapshot.__file__).parents[2]
    found = {
        (node.attr, path.relative_to(root).as_posix())
        for path in root.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and node.attr in ("backing", "form")
    }
    makers = {(attribute, "eager/handle.py") for attribute in ("backing", "form")}
    of_traced = {("backing", "eager/tracing/number.py"), ("form", "eager/tracing/number.py")}
    of_saved = {("form", "eager/autograd/saved.py")}  # of what hooks have taken, which is no tensor
    of_lazy = {(name, "nn/parameter.py") for name in ("backing", "form")}  # the first memory of a lazy parameter
    assert found == makers | of_traced | of_saved | of_lazy | {("form", "eager/tracing/sharing.py")}


def another_rate(weights: list[Any], optimizer: Any) -> None:
    optimizer.param_groups[0]["lr"] = 0.25


def other_betas(weights: list[Any], optimizer: Any) -> None:
    optimizer.param_groups[0]["betas"] = (0.5, 0.75)


def its_own_state_again(weights: list[Any], optimizer: Any) -> None:
    optimizer.load_state_dict(optimizer.state_dict())


def an_integer_rate(weights: list[Any], optimizer: Any) -> None:
    optimizer.param_groups[0]["lr"] = 1


def another_mean(weights: list[Any], optimizer: Any) -> None:
    optimizer.state[weights[1]]["exp_avg"] = rl.ones(3)


def other_order(weights: list[Any], optimizer: Any) -> None:
    optimizer.param_groups[0]["params"].reverse()


def less_state(weights: list[Any], optimizer: Any) -> None:
    del optimizer.state[weights[0]]


OTHER_STATE = [its_own_state_again, an_integer_rate, another_mean, other_order, less_state]


@pytest.mark.parametrize("calls", [1, 3])
@pytest.mark.parametrize(
    ("change", "graphs"),
    [(another_rate, 1), (other_betas, 1), *[(change, 2) for change in OTHER_STATE]],
)
def test_changes_of_an_optimizer(change: Callable[[list[Any], Any], None], graphs: int, calls: int) -> None:
    def make() -> tuple[list[Any], Any, Callable[[], Any]]:
        weights = [rl.full((3,), 0.5 * (at + 1)).requires_grad_(True) for at in range(2)]
        optimizer = rl.optim.Adam(weights)

        def step() -> Any:
            optimizer.zero_grad()
            loss = sum([(weight * weight).sum() for weight in weights])
            loss.backward()
            optimizer.step()
            return loss.detach()

        return weights, optimizer, step

    (weights, optimizer, step), (others, eager, plain) = make(), make()
    compiled = rl.compile(step)
    for _ in range(calls):
        compiled()
        plain()
    for args in ((weights, optimizer), (others, eager)):
        change(*args)
    assert rl.equal(compiled(), plain())
    assert all(rl.equal(weight, other) for weight, other in zip(weights, others, strict=True))
    assert len(explain_entries(compiled)) == graphs
