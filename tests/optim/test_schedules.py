"""Schedules give exactly PyTorch's numbers, and can be saved and continued."""

import importlib.util
import json
import math
import warnings
from pathlib import Path

import pytest
from tests.optim import optimizer_cases as cases

import rushlight as rl
from rushlight.optim import SGD, Adagrad, lr_scheduler, swa_utils

TABLE = json.loads((Path(__file__).parent / "torch_optim.json").read_text(encoding="utf-8"))
NAMES = (*cases.SCHEDULES, *cases.AVERAGING, *cases.PLATEAUS)


@pytest.mark.parametrize("name", NAMES)
def test_schedule_gives_torch_numbers(name):
    assert cases.run_schedule(rl, name) == TABLE["rates"][name]


@pytest.mark.peer
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.parametrize("name", NAMES)
def test_schedule_agrees_with_live_torch(name):
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert cases.run_schedule(rl, name) == cases.run_schedule(torch, name)


def sgd(lr=0.5):
    return SGD([rl.zeros(1, requires_grad=True)], lr=lr, momentum=0.9)


@pytest.mark.parametrize(
    "name", [name for name in NAMES if name not in ("lambda_per_group", "one_cycle", "cyclic_half")]
)
def test_state_dict_continues_a_schedule(name):
    def make(optimizer):
        if name in cases.PLATEAUS:
            options = dict(cases.PLATEAUS[name], min_lr=0.01)
            return lr_scheduler.ReduceLROnPlateau(optimizer, **options)
        if name in cases.AVERAGING:
            return swa_utils.SWALR(optimizer, 0.05)
        return cases.SCHEDULES[name](lr_scheduler, optimizer)

    def advance(schedule, steps):
        rates = []
        for at in range(steps):
            schedule.step(*([cases.METRICS[at]] if name in cases.PLATEAUS else []))
            rates.append(schedule.get_last_lr())
        return rates

    first, second = sgd(), sgd()
    one = make(first)
    advance(one, 5)
    other = make(second)
    second.load_state_dict(first.state_dict())
    other.load_state_dict(json.loads(json.dumps(one.state_dict())) if name == "step" else one.state_dict())
    assert advance(other, 6) == advance(one, 6)


def test_closed_forms_agree_with_the_steps():
    for name in ("step", "multi_step", "exponential", "constant", "cosine", "linear", "polynomial", "warm_restarts"):
        stepped, jumped = sgd(), sgd()
        one = cases.SCHEDULES[name](lr_scheduler, stepped)
        other = cases.SCHEDULES[name](lr_scheduler, jumped)
        for epoch in range(1, 7):
            one.step()
            other.step(epoch)
            assert other.get_last_lr()[0] == pytest.approx(one.get_last_lr()[0], rel=1e-12), name


def test_resuming_needs_the_initial_rate():
    with pytest.raises(KeyError, match="initial_lr is missing"):
        lr_scheduler.StepLR(sgd(), 3, last_epoch=4)
    optimizer = sgd()
    optimizer.param_groups[0]["initial_lr"] = 1.0
    assert lr_scheduler.StepLR(optimizer, 3, last_epoch=4).base_lrs == [1.0]


def test_rates_that_are_tensors_are_changed_in_place():
    optimizer = SGD([rl.zeros(1, requires_grad=True)], lr=rl.tensor(0.5))
    rate = optimizer.param_groups[0]["lr"]
    lr_scheduler.ExponentialLR(optimizer, 0.5).step()
    assert optimizer.param_groups[0]["lr"] is rate and rate.item() == 0.25


def test_plateau_starts_anew_at_infinity():
    schedule = lr_scheduler.ReduceLROnPlateau(sgd())
    assert schedule.best == math.inf and isinstance(schedule, lr_scheduler.LRScheduler)


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (lambda: lr_scheduler.StepLR("sgd", 3), TypeError, "str is not an Optimizer"),
        (lambda: lr_scheduler.LambdaLR(sgd(), [min, max]), ValueError, "Expected 1 lr_lambdas, but got 2"),
        (lambda: lr_scheduler.LinearLR(sgd(), start_factor=0), ValueError, "Starting multiplicative factor"),
        (lambda: lr_scheduler.OneCycleLR(sgd(), 0.1), ValueError, "total_steps OR"),
        (lambda: _overrun(), ValueError, "Tried to step 3"),
        (lambda: lr_scheduler.ReduceLROnPlateau(sgd(), factor=1.0), ValueError, "Factor should be < 1.0"),
        (lambda: lr_scheduler.ReduceLROnPlateau(sgd()).step(), TypeError, "takes the metric"),
        (lambda: lr_scheduler.SequentialLR(sgd(), [], []), ValueError, "at least one scheduler"),
        (lambda: lr_scheduler.ChainedScheduler([]), ValueError, "at least one scheduler"),
        (lambda: lr_scheduler.ChainedScheduler([lr_scheduler.ReduceLROnPlateau(sgd())]), ValueError, "not support"),
        (lambda: lr_scheduler.ChainedScheduler([_step(), _step()]), ValueError, "the same optimizer"),
        (lambda: lr_scheduler.CyclicLR(sgd(), 0.1, 1, mode="round"), ValueError, "mode is invalid"),
        (lambda: lr_scheduler.CyclicLR(adagrad(), 0.1, 1), ValueError, "must support momentum"),
        (lambda: lr_scheduler.CosineAnnealingWarmRestarts(sgd(), 0), ValueError, "positive integer T_0"),
        (lambda: swa_utils.SWALR(sgd(), 0.1, anneal_strategy="up"), ValueError, "'cos' or 'linear'"),
        (lambda: swa_utils.get_ema_avg_fn(2.0), ValueError, "in [0,1] range"),
        (lambda: lr_scheduler.EPOCH_DEPRECATION_WARNING, AttributeError, "has no EPOCH_DEPRECATION_WARNING yet"),
    ],
)
def test_mistakes_are_registered_errors(make, kind, text):
    with pytest.raises(kind) as caught:
        make()
    assert isinstance(caught.value, rl.RushlightError)
    assert text in str(caught.value)


def _step():
    return lr_scheduler.StepLR(sgd(), 3)


def adagrad():
    return Adagrad([rl.zeros(1, requires_grad=True)])


def _overrun():
    schedule = lr_scheduler.OneCycleLR(sgd(), 0.1, total_steps=2)
    for _ in range(3):
        schedule.step()


TENSOR_RATES = {
    "lambda": lambda optimizer: lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.5**epoch),
    "step": lambda optimizer: lr_scheduler.StepLR(optimizer, 2),
    "linear": lr_scheduler.LinearLR,
    "cosine": lambda optimizer: lr_scheduler.CosineAnnealingLR(optimizer, 10),
    "cyclic": lambda optimizer: lr_scheduler.CyclicLR(optimizer, rl.tensor(0.1), rl.tensor(0.3), cycle_momentum=False),
    "one cycle": lambda optimizer: lr_scheduler.OneCycleLR(optimizer, rl.tensor(0.3), 8, cycle_momentum=False),
    "averages": lambda optimizer: swa_utils.SWALR(optimizer, rl.tensor(0.01), 3),
}


@pytest.mark.parametrize("name", TENSOR_RATES)
def test_a_rate_that_is_a_tensor_gives_the_same_rates(name):
    def rates(optimizer):
        schedule = TENSOR_RATES[name](optimizer)
        found = []
        for _ in range(6):
            optimizer.step()
            schedule.step()
            found.append(float(schedule.get_last_lr()[0]))
        return found, [float(rate) for rate in schedule.base_lrs]

    rate = rl.tensor(0.1)
    with_tensor, with_number = sgd(rate), sgd(0.1)
    for found, expected in zip(rates(with_tensor), rates(with_number), strict=True):
        assert found == pytest.approx(expected, rel=1e-5, abs=1e-6)
    assert with_tensor.param_groups[0]["lr"] is rate
    assert with_tensor.param_groups[0]["initial_lr"] is not rate


def test_rates_that_were_read_stay():
    optimizer = sgd(rl.tensor(0.5))
    schedule = lr_scheduler.StepLR(optimizer, 1)
    first = schedule.get_last_lr()
    optimizer.step()
    schedule.step()
    assert float(first[0]) == 0.5


def test_plateau_has_groups_that_came_later():
    optimizer = sgd()
    schedule = lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, min_lr=0.04)
    fixed = lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, min_lr=[0.04])
    schedule.step(1.0)
    optimizer.add_param_group({"params": [rl.zeros(1, requires_grad=True)], "lr": 0.3})
    schedule.step(2.0)
    assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([0.05, 0.04])
    fixed.step(1.0)
    with pytest.raises(ValueError, match="1 min_lrs, 2 groups"):
        fixed.step(2.0)
