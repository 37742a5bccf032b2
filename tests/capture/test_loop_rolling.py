"""Statements that differ in objects and places become loops, and do what they did."""

from __future__ import annotations

from typing import Any

import rushlight as rl
from rushlight.capture.api import explain_entries
from rushlight.capture.arguments import Names
from rushlight.capture.entry.loop_rolling import rolled


def run(lines: list[str], names: Names, count: int) -> list[Any]:
    found: list[Any] = [None] * count
    exec("\n".join(lines), {**names.space, "found": found})
    return found


def test_statements_that_are_alike_are_one_loop() -> None:
    names = Names()
    entries = [{"v1[0]": (place, "two"), 'quo"ted': 3} for place in range(6)]
    lines = [f"found[{at}] = {names(entry)}['v1[0]'][0] + 7" for at, entry in enumerate(entries)]
    lines += [f"""found[{6 + at}] = {names(entry)}['quo"ted'] + 8""" for at, entry in enumerate(entries)]
    made = rolled(lines, names)
    assert len(made) == 2 and all(line.startswith("for (") for line in made)
    assert run(made, names, 12) == run(lines, names, 12) == [*range(7, 13), *[11] * 6]


def test_few_statements_and_equal_ones_stay() -> None:
    names = Names()
    lines = [f"found[{at}] = {names([at])}[0]" for at in range(3)]
    assert rolled(lines, names) == lines
    equal = ["found[0] = 1"] * 5
    assert run(rolled(equal, names), names, 1) == [1]


def test_a_step_of_many_parameters_is_short_and_right() -> None:
    def make() -> tuple[list[Any], Any]:
        weights = [rl.full((3, 2), 0.25 * (at + 1)).requires_grad_(True) for at in range(12)]
        halves = [{"params": weights[:6], "lr": 0.5}, {"params": weights[6:], "lr": 0.25}]
        return weights, rl.optim.Adam(halves)

    def stepper(weights: list[Any], optimizer: Any) -> Any:
        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = sum([(weight * x).sum() for weight in weights])
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step

    (weights, optimizer), (others, eager) = make(), make()
    compiled, plain = rl.compile(stepper(weights, optimizer)), stepper(others, eager)
    x = rl.arange(6.0).reshape(3, 2)
    for turn in range(4):
        for each in (optimizer, eager):
            each.param_groups[1]["lr"] = 0.25 / (turn + 1)
        assert rl.equal(compiled(x), plain(x))
    for weight, other in zip(weights, others, strict=True):
        assert rl.equal(weight, other) and rl.equal(weight.grad, other.grad)
        assert optimizer.state[weight]["step"] == eager.state[other]["step"] == 4
    (entry,) = explain_entries(compiled)
    assert len(entry.text.splitlines()) < 60
