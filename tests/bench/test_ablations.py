"""Mechanisms can be left out: other code with the same bits, which the benchmark times beside the usual one."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

import rushlight as rl
from rushlight.bench import ablations
from rushlight.bench.ablations import EPILOGUES, GROUPS, WITH, WITHOUT, Outcome, Trial, as_table, measure, regret
from rushlight.cli import benchmarks
from rushlight.eager.pytree import flatten_tree
from rushlight.support import settings
from rushlight.support.setting_kinds import MECHANISMS


def attend(q: rl.Tensor, k: rl.Tensor) -> rl.Tensor:
    return (q @ k.mT).softmax(-1) @ k


SMALL = {
    "epilogues": (lambda x, y: (x @ y).relu() + 1, ((40, 60), (60, 50))),
    "rows": (ablations.layer_norm, ((30, 64), (64,), (64,))),
    "row_reuse": (lambda x: x.softmax(-1), ((30, 400),)),
    "row_sums": (ablations.with_gradients(ablations.layer_norm), ((700, 40), (40,), (40,), (700, 40))),
    "splits": (lambda x, y: (x @ y, x.sum()), ((3, 9000), (9000, 4))),
    "chains": (attend, ((4, 80, 16), (4, 80, 16))),
}


def small(mechanism: str) -> Trial:
    run, shapes = SMALL[mechanism]
    return Trial(mechanism, mechanism, lambda: tuple([rl.randn(*shape) for shape in shapes]), run, 1.0)


def outcome(gain: float) -> Outcome:
    return Outcome(small("rows"), {WITH: [1.0, 1.0], WITHOUT: [gain, gain]}, 0.5, True)


def test_every_mechanism_has_a_program():
    assert set(SMALL) == set(MECHANISMS)


@pytest.mark.row("6.12")
@pytest.mark.parametrize("mechanism", SMALL)
def test_code_without_a_mechanism_is_other_code_with_the_same_bits(mechanism: str):
    trial = small(mechanism)
    assert measure(trial, None, 1, 1.0).same
    tensors = trial.make()
    texts = []
    for without in ((), (mechanism,)):
        with settings.override(without=without):
            texts.append(rl.compiler.run_and_get_code(rl.compile(trial.run), *tensors)[1])
    assert texts[0] != texts[1]


@pytest.mark.row("6.12")
def test_all_mechanisms_may_be_left_out_together():
    for mechanism in SMALL:
        trial = small(mechanism)
        tensors = trial.make()
        found = []
        for without in ((), tuple(MECHANISMS)):
            with settings.override(without=without):
                results = flatten_tree(rl.compile(trial.run)(*tensors))[0]
                found.append([one.numpy().tobytes() for one in results])
        assert found[0] == found[1]


@pytest.mark.row("7.1")
def test_a_row_stays_in_one_kernel():
    """What a norm reads again of a row lies in the nearest cache; left out, each reduction is a pass over memory."""
    counts = []
    for without in ((), ("rows",)):
        with settings.override(without=without):
            compiled = rl.compile(ablations.layer_norm)
            compiled(rl.randn(30, 64), rl.randn(64), rl.randn(64))
            counts.append(rl.compiler.report(compiled).launches)
    assert counts == [1, 3]


@pytest.mark.row("7.2")
@pytest.mark.parametrize("columns", [1, 17, 512, 4100])
def test_sums_of_columns_have_their_bits_in_either_order_of_loops(columns: int):
    trial = Trial("", "row_sums", lambda: (rl.randn(700, columns),), lambda x: x.sum(0), 1.0)
    assert measure(trial, None, 1, 1.0).same


@pytest.mark.row("7.3")
def test_two_norms_of_one_weight_are_not_one_kernel():
    """Each norm's rows have a kernel of their own: one of both would have twice the loads."""
    shape = (600, 48)
    tensors = (rl.randn(*shape), rl.randn(*shape), rl.randn(48), rl.randn(*shape))
    compiled = rl.compile(ablations.with_gradients(ablations.two_norms))
    compiled(*tensors)
    assert rl.compiler.report(compiled).launches >= 4


@pytest.mark.row("6.6")
def test_long_sums_that_are_shared_are_no_less_accurate():
    a, b = rl.randn(16, 20000), rl.randn(20000, 16)
    wide = a.double() @ b.double()
    errors = []
    for without in ((), ("splits",)):
        with settings.override(without=without):
            errors.append((rl.compile(rl.matmul)(a, b).double() - wide).abs().max().item())
    assert errors[0] <= errors[1]


@pytest.mark.row("5.7")
def test_there_are_thirty_pairs_of_products_and_epilogues():
    trials = list(GROUPS["epilogues"]())
    assert len({trial.name for trial in trials}) == len(trials) == 30
    assert len(EPILOGUES) == 6


def test_regret_counts_what_the_other_way_would_have_saved():
    assert regret([outcome(2.0), outcome(0.8)]) == pytest.approx(0.125)
    some = [outcome(2.0), outcome(0.99), outcome(0.8)]
    assert [one.is_right for one in some] == [True, True, False]
    table = as_table("", some)
    assert [row[-1] for row in table.rows] == ["", "", "", "loses"]
    assert "right in 2 of 3" in table.notes[0]


def test_the_command_ends_with_what_it_found(rushlight: Callable):
    words = ["bench", "ablations", "long-sums", "--only", "16x16x4096", "--rounds", "3", "--budget", "0.1"]
    done = rushlight(*words, "--threads", "1", "--clock", "cpu")
    assert done.status == 0 and "16x16x4096" in done.out and "regret" in done.out


@pytest.mark.parametrize("values", list(itertools.product(["nonsense"], ["groups", "only", "clock"])))
def test_names_that_there_are_not_are_errors(values: tuple[str, str]):
    name, place = values
    asked = {"groups": [name]} if place == "groups" else {place: name}
    with pytest.raises(rl.RushlightError) as caught:
        benchmarks.leave_out(**{"groups": ["long-sums"], "only": "", "clock": "wall", **asked})
    assert caught.value.code == "A002" and "one of" in str(caught.value)
