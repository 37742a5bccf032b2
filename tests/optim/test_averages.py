"""Averages of weights, hooks around steps and state dicts, and copies of optimizers."""

import copy
import pickle

import pytest

import rushlight as rl
from rushlight import nn, optim
from rushlight.optim import swa_utils


def values_of(model):
    return [value.detach().clone() for value in model.parameters()]


@pytest.mark.parametrize("options", [{}, {"avg_fn": swa_utils.get_swa_avg_fn()}, {"use_buffers": True}])
def test_averages_are_means_of_all_models(options):
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    average = swa_utils.AveragedModel(model, **options)
    seen = []
    for step in range(3):
        with rl.no_grad():
            for value in model.parameters():
                value.add_(step + 1.0)
        model(rl.randn(4, 2))
        average.update_parameters(model)
        seen.append(values_of(model))
    for got, *expected in zip(average.parameters(), *seen, strict=True):
        assert rl.allclose(got, sum(expected) / 3)
    assert int(average.n_averaged) == 3 and "module.0.weight" in average.state_dict()
    running = average.module[1].running_mean
    assert rl.equal(running, model[1].running_mean) == (not options.get("use_buffers", False))


def test_moving_averages_weigh_the_last_model():
    model = nn.Linear(1, 1, bias=False)
    for options in ({"multi_avg_fn": swa_utils.get_ema_multi_avg_fn(0.75)}, {"avg_fn": swa_utils.get_ema_avg_fn(0.75)}):
        average = swa_utils.AveragedModel(model, **options)
        for value in (4.0, 8.0):
            with rl.no_grad():
                model.weight.fill_(value)
            average.update_parameters(model)
        assert average.module.weight.item() == 5.0 and average(rl.ones(1, 1)).item() == 5.0
    with pytest.raises(rl.ArgumentValueError, match="Only one of"):
        swa_utils.AveragedModel(model, avg_fn=min, multi_avg_fn=max)


def test_running_statistics_are_means_over_the_loader():
    model = nn.Sequential(nn.BatchNorm1d(2))
    model.eval()
    batches = [rl.randn(5, 2) for _ in range(3)]
    swa_utils.update_bn([(batch, None) for batch in batches], model)
    assert rl.allclose(model[0].running_mean, sum(batch.mean(0) for batch in batches) / 3, atol=1e-6)
    assert model[0].momentum == 0.1 and not model.training


def stepped(param, optimizer):
    (param * param).sum().backward()
    return optimizer.step()


def test_hooks_see_steps_and_state_dicts():
    class Halved(optim.SGD):
        def step(self, closure=None):
            with rl.no_grad():
                for param in self.param_groups[0]["params"]:
                    param.grad.mul_(0.5)
            return super().step(closure)

    param = rl.tensor([2.0]).requires_grad_()
    optimizer, calls = Halved([param], lr=0.5), []
    optimizer.register_step_pre_hook(lambda self, args, kwargs: calls.append((self is args[0], len(args), kwargs)))
    optimizer.register_step_post_hook(lambda self, args, kwargs: calls.append(param.item()))
    stepped(param, optimizer)
    assert calls == [(True, 1, {}), 1.0], "once, though the step calls the one of its base class"
    optimizer.register_step_pre_hook(lambda self, args, kwargs: ((self, lambda: 7), kwargs))
    param.grad = rl.zeros(1)
    assert optimizer.step() == 7

    order = []
    optimizer.register_state_dict_post_hook(lambda self, state: order.append("last") or {**state, "note": 1})
    optimizer.register_state_dict_post_hook(lambda self, state: order.append("first"), prepend=True)
    optimizer.register_state_dict_pre_hook(lambda self: order.append("before"))
    optimizer.register_load_state_dict_pre_hook(lambda self, state: {**state, "note": state.pop("note") + 1})
    optimizer.register_load_state_dict_post_hook(lambda self: order.append("loaded"))
    saved = optimizer.state_dict()
    optimizer.load_state_dict(saved)
    assert order == ["before", "first", "last", "loaded"] and saved["note"] == 1


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))])
def test_optimizers_are_copied_with_their_parameters(copied):
    param = rl.tensor([2.0, -1.0]).requires_grad_()
    optimizer = optim.NAdam([param], lr=0.1)
    stepped(param, optimizer)
    param.grad = None
    other, twin = copied((param, optimizer))
    stepped(param, optimizer)
    stepped(other, twin)
    assert rl.equal(param, other) and other is not param
