"""Optimizers agree with PyTorch step by step, and keep groups, state and hooks as it does."""

import copy
import importlib.util
import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from tests.optim import optimizer_cases as cases

import rushlight as rl
from rushlight import optim

HERE = Path(__file__).parent
FROZEN = np.load(HERE / "torch_optimizers.npz")
TABLE = json.loads((HERE / "torch_optim.json").read_text(encoding="utf-8"))


def compare(found, expected):
    assert set(found) == set(expected)
    for key, value in found.items():
        # PyTorch's vectorised kernels fuse some products with sums, so that its last bits are others.
        np.testing.assert_allclose(value, expected[key], rtol=3e-6, atol=1e-6, err_msg=key)


@pytest.mark.parametrize("name", cases.OPTIMIZERS)
def test_optimizer_agrees_with_frozen_torch_values(name):
    expected = {key.removeprefix(f"{name}/"): FROZEN[key] for key in FROZEN.files if key.startswith(f"{name}/")}
    assert len(expected) >= 2 * cases.STEPS
    compare(cases.run_optimizer(rl, name), expected)


@pytest.mark.peer
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.parametrize("name", cases.OPTIMIZERS)
def test_optimizer_agrees_with_live_torch(name):
    import torch

    compare(cases.run_optimizer(rl, name), cases.run_optimizer(torch, name))


@pytest.mark.parametrize("name", [name for name in cases.OPTIMIZERS if name != "groups"])
def test_optimizer_prints_and_keeps_its_settings_like_torch(name):
    optimizer = cases.OPTIMIZERS[name](optim, [rl.zeros(1, requires_grad=True)])
    assert repr(optimizer) == TABLE["repr"][name]
    group = optimizer.state_dict()["param_groups"][0]
    assert json.loads(json.dumps(group)) == TABLE["groups"][name]


def parameter(*values):
    return rl.tensor(list(values) or [1.0]).requires_grad_()


def stepped(optimizer, param, count=1):
    for _ in range(count):
        optimizer.zero_grad()
        (param * param).sum().backward()
        optimizer.step()


def test_parameters_without_gradients_are_left_alone():
    used, unused = parameter(1.0), parameter(2.0)
    optimizer = optim.Adam([used, unused], lr=0.1)
    stepped(optimizer, used)
    assert unused.tolist() == [2.0] and list(optimizer.state_dict()["state"]) == [0]


def test_closure_computes_the_loss_again():
    param = parameter(3.0)
    optimizer = optim.SGD([param], lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = (param * param).sum()
        loss.backward()
        return loss

    with rl.no_grad():
        assert optimizer.step(closure).item() == 9.0
    assert param.item() == pytest.approx(2.4)


@pytest.mark.parametrize("make", cases.OPTIMIZERS.values(), ids=cases.OPTIMIZERS)
def test_state_dict_continues_exactly(make):
    first = [parameter(1.0, -2.0), parameter(0.5)]
    one = make(optim, first)
    for _ in range(3):
        one.zero_grad()
        sum((p * p).sum() for p in first).backward()
        one.step()
    second = [p.detach().clone().requires_grad_() for p in first]
    other = make(optim, second)
    other.load_state_dict(pickle.loads(pickle.dumps(copy.deepcopy(one.state_dict()))))
    for params, optimizer in ((first, one), (second, other)):
        for _ in range(3):
            optimizer.zero_grad()
            sum((p * p).sum() for p in params).backward()
            optimizer.step()
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())


def test_state_follows_the_parameters_dtype_and_torch_step_tensors_are_read():
    param = parameter(1.0)
    optimizer = optim.Adam([param], lr=0.1)
    stepped(optimizer, param, 2)
    state = optimizer.state_dict()
    step = state["state"][0]["step"]
    assert step.shape == () and step.dtype is rl.float32 and step.cpu().item() == 2  # as PyTorch has it
    assert type(optimizer.state[param]["step"]) is int
    double = rl.tensor([1.0], dtype=rl.float64).requires_grad_()
    other = optim.Adam([double], lr=0.5)
    other.load_state_dict(state)
    entry = other.state[double]
    assert entry["step"] == 2 and type(entry["step"]) is int
    assert entry["exp_avg"].dtype is rl.float64 and other.param_groups[0]["lr"] == 0.1
    assert entry["exp_avg"].data_ptr() != state["state"][0]["exp_avg"].data_ptr()


def test_switching_momentum_on_later_takes_effect():
    param = parameter(1.0)
    optimizer = optim.SGD([param], lr=0.1)
    stepped(optimizer, param)
    assert not optimizer.state_dict()["state"]
    optimizer.param_groups[0]["momentum"] = 0.9
    stepped(optimizer, param)
    assert list(optimizer.state_dict()["state"][0]) == ["momentum_buffer"]
    optimizer.param_groups[0].update(momentum=0, weight_decay=0.5)
    before = param.item()
    stepped(optimizer, param)
    assert param.item() == pytest.approx(before - 0.1 * (2 * before + 0.5 * before))


def test_groups_have_their_own_settings():
    a, b = parameter(1.0), parameter(1.0)
    optimizer = optim.SGD([{"params": [a]}, {"params": b, "lr": 0.5}], lr=0.1)
    optimizer.add_param_group({"params": [("late", parameter(2.0))], "lr": 0.25})
    assert [group["lr"] for group in optimizer.param_groups] == [0.1, 0.5, 0.25]
    assert optimizer.param_groups[2]["param_names"] == ["late"]


def test_hooks_run_around_a_step_and_gradients_can_be_zeroed():
    param = parameter(1.0)
    optimizer = optim.SGD([param], lr=0.1)
    calls = []
    before = optimizer.register_step_pre_hook(lambda *args: calls.append(("pre", param.item())))
    optimizer.register_step_post_hook(lambda *args: calls.append(("post", param.item())))
    stepped(optimizer, param)
    before.remove()
    stepped(optimizer, param)
    assert [name for name, _ in calls] == ["pre", "post", "post"] and calls[0][1] == 1.0 > calls[1][1]
    optimizer.zero_grad(set_to_none=False)
    assert param.grad.tolist() == [0.0]


def test_a_subclass_may_write_its_own_step():
    class Sign(optim.Optimizer):
        def __init__(self, params, lr=0.5):
            super().__init__(params, {"lr": lr})

        @rl.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for param in group["params"]:
                    param.add_(param.grad.sign(), alpha=-group["lr"])

    param = parameter(3.0)
    stepped(Sign([param]), param)
    assert param.item() == 2.5
    with pytest.raises(NotImplementedError, match="defines update_param or step"):
        stepped(optim.Optimizer([param], {}), param)


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (lambda: optim.SGD([], lr=0.1), ValueError, "empty parameter list"),
        (lambda: optim.SGD(parameter(), lr=0.1), TypeError, "one tensor"),
        (lambda: optim.SGD([1.0], lr=0.1), TypeError, "one of the params is float"),
        (lambda: optim.SGD([{"params": {parameter()}}], lr=0.1), TypeError, "a set has none"),
        (lambda: optim.SGD([parameter() * 2], lr=0.1), ValueError, "non-leaf"),
        (lambda: optim.SGD([{"params": [P]}, {"params": [P]}], lr=0.1), ValueError, "more than one parameter group"),
        (lambda: optim.SGD([P], lr=-1), ValueError, "Invalid learning rate: -1"),
        (lambda: optim.SGD([P], nesterov=True), ValueError, "Nesterov momentum requires"),
        (lambda: optim.Adam([P], betas=(0.9, 1.0)), ValueError, "beta parameter at index 1"),
        (lambda: optim.Adam([P], differentiable=True), NotImplementedError, "differentiable=True"),
        (lambda: optim.RMSprop([P], alpha=-1), ValueError, "Invalid alpha"),
        (lambda: optim.SGD([P]).load_state_dict(optim.SGD([P, Q]).state_dict()), ValueError, "doesn't match the size"),
        (lambda: optim.swap_in_optimizer_params_and_state, AttributeError, "has no swap_in"),
        (lambda: optim.SparseAdam([P], eps=0.0), ValueError, "Invalid epsilon value: 0.0"),
        (lambda: optim.LBFGS([{"params": [P]}, {"params": [Q]}]), ValueError, "per-parameter options"),
        (lambda: optim.LBFGS([P], line_search_fn="wolfe"), ValueError, "only 'strong_wolfe'"),
        (lambda: optim.LBFGS([P]).step(), TypeError, "takes a closure"),
        (lambda: optim.Muon([P]), ValueError, "only supports 2D"),
        (lambda: optim.SGD([P], differentiable=True), NotImplementedError, "differentiable=True"),
        (lambda: optim.AdamX([P]), AttributeError, "did you mean Adam"),
    ],
)
def test_mistakes_are_registered_errors(make, kind, text):
    with pytest.raises(kind) as caught:
        make()
    assert isinstance(caught.value, rl.RushlightError)
    assert text in str(caught.value)


P, Q = parameter(), parameter()


def test_a_wrapper_that_leaves_out_the_constructor_steps_without_hooks():
    class Wrapper(rl.optim.Optimizer):
        def __init__(self, inner: rl.optim.Optimizer) -> None:
            self.inner = inner

        def step(self, closure: object = None) -> None:
            self.inner.step()

    weight = rl.ones(2, requires_grad=True)
    wrapper = Wrapper(rl.optim.SGD([weight], lr=1.0))
    weight.sum().backward()
    wrapper.step()
    assert weight.tolist() == [0.0, 0.0]


STEPS_OF_PARTS = {
    "SGD": {"momentum": 0.9, "nesterov": True},
    "Adam": {"amsgrad": True, "weight_decay": 0.1},
    "AdamW": {},
    "Adagrad": {"initial_accumulator_value": 0.2},
    "Adadelta": {},
    "Adamax": {},
    "ASGD": {},
    "NAdam": {},
    "RAdam": {"maximize": True},
    "RMSprop": {"centered": True, "momentum": 0.5},
    "Rprop": {},
}


@pytest.mark.parametrize("name", STEPS_OF_PARTS)
@pytest.mark.parametrize("compiled", [False, True])
def test_a_complex_parameter_steps_as_its_parts(name, compiled):
    rng = np.random.default_rng(0)
    start = rng.normal(size=(4, 3)) + 1j * rng.normal(size=(4, 3))
    whole = rl.nn.Parameter(rl.tensor(start))
    parts = rl.nn.Parameter(rl.view_as_real(rl.tensor(start)).clone())
    optimizers = [getattr(rl.optim, name)([param], lr=0.01, **STEPS_OF_PARTS[name]) for param in (whole, parts)]
    steps = [rl.compile(one.step) if compiled else one.step for one in optimizers]
    for _ in range(4):
        gradient = rl.tensor(rng.normal(size=(4, 3)) + 1j * rng.normal(size=(4, 3)))
        whole.grad, parts.grad = gradient, rl.view_as_real(gradient).clone()
        for step in steps:
            step()
    assert rl.view_as_real(whole.detach()).tolist() == parts.tolist()
    state, expected = (next(iter(one.state_dict()["state"].values())) for one in optimizers)
    for key, value in expected.items():
        if isinstance(value, rl.Tensor) and value.ndim:
            assert state[key].is_complex()
            assert rl.view_as_real(state[key]).tolist() == value.tolist()
    again = getattr(rl.optim, name)([whole], lr=0.01, **STEPS_OF_PARTS[name])
    again.load_state_dict(optimizers[0].state_dict())
    again.step()
    optimizers[1].step()
    assert rl.view_as_real(whole.detach()).tolist() == parts.tolist()


def test_adafactor_refuses_complex_parameters():
    weight = rl.nn.Parameter(rl.ones(2, 3, dtype=rl.complex64))
    weight.grad = rl.ones(2, 3, dtype=rl.complex64)
    with pytest.raises(rl.RushlightError, match="does not support complex parameters"):
        rl.optim.Adafactor([weight]).step()
