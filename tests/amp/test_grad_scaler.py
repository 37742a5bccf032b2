"""GradScaler: scales, steps that are left out, growth, and its state."""

import pytest

import rushlight as rl
from rushlight import optim


def backward(scaler, param, factor=1.0):
    param.grad = None
    scaler.scale((param * factor).sum()).backward()


def test_steps_with_gradients_that_are_not_finite_are_left_out():
    param = rl.tensor([1.0, 2.0]).requires_grad_()
    optimizer = optim.SGD([param], lr=0.5)
    scaler = rl.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
    scales = []
    for factor in (2.0, float("inf"), 2.0, 2.0, 4.0):
        backward(scaler, param, factor)
        if factor == 4.0:
            scaler.unscale_(optimizer)
            assert param.grad.tolist() == [4.0, 4.0]
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
    assert scales == [8.0, 4.0, 4.0, 8.0, 8.0] and param.tolist() == [-4.0, -3.0]
    other = rl.GradScaler("cpu")
    other.load_state_dict(scaler.state_dict())
    assert other.state_dict() == scaler.state_dict() and other.get_growth_interval() == 2
    assert [item.item() for item in other.scale((rl.tensor(1.0), rl.tensor(2.0)))] == [8.0, 16.0]
    other.update(32.0)
    assert other.get_scale() == 32.0


def test_calls_in_the_wrong_order_are_errors():
    param = rl.tensor([1.0]).requires_grad_()
    optimizer = optim.SGD([param], lr=0.5)
    scaler = rl.amp.GradScaler("cpu")
    backward(scaler, param)
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="already been called on this optimizer"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match=r"called after step\(\)"):
        scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match=r"step\(\) has already been called"):
        scaler.step(optimizer)
    scaler.update()
    for run, text in (
        (scaler.update, "No inf checks"),
        (lambda: scaler.step(optimizer, closure=min), "Closure use"),
        (lambda: scaler.load_state_dict({}), "source state dict is empty"),
    ):
        with pytest.raises(RuntimeError, match=text):
            run()
    with pytest.raises(ValueError, match=r"growth factor must be > 1"):
        rl.amp.GradScaler("cpu", growth_factor=1.0)
    half = rl.tensor([1.0], dtype=rl.float16).requires_grad_()
    backward(scaler, half)
    with pytest.raises(ValueError, match="unscale FP16"):
        scaler.unscale_(optim.SGD([half], lr=0.5))


def test_without_devices_a_scaler_is_off():
    param = rl.tensor([1.0]).requires_grad_()
    optimizer = optim.SGD([param], lr=0.5)
    with pytest.warns(rl.RushlightWarning, match="there is no cuda"):
        scaler = rl.cuda.amp.GradScaler()
    backward(scaler, param)
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    assert param.item() == 0.5 and scaler.get_scale() == 1.0 and scaler.state_dict() == {}


def test_a_compiled_function_takes_the_steps_of_a_scaler_once():
    def trained(compile_step):
        param = rl.tensor([1.0, 2.0]).requires_grad_()
        optimizer = optim.SGD([param], lr=0.5)
        scaler = rl.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)

        def step(factor):
            optimizer.zero_grad()
            scaler.scale((param * factor).sum()).backward()
            scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()

        run = compile_step(step)
        scales = []
        for factor in (2.0, float("inf"), 2.0, 2.0):
            run(rl.tensor(factor))
            scales.append(scaler.get_scale())
        return scales, param.tolist()

    assert trained(lambda step: rl.compile(step, fullgraph=False)) == trained(lambda step: step)
