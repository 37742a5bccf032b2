"""Compiled writes to inputs under autograd: they get the history that eager code gives them."""

import gc
import weakref

import numpy as np
import pytest

import rushlight as rl
from rushlight.support.errors import AutogradError

both = pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])


def leaf(*values):
    return rl.tensor(values, requires_grad=True)


def subtracted(y, x):
    y.sub_(x)
    return y


def scaled(y, x):
    y.mul_(x * x)
    return


def scaled_in_part(y, x):
    y[1:].mul_(x[1:])
    return y.view(3, 1)


def seen_before(y, x):
    part = y[:2]
    y.mul_(x)
    return part, y * x


def written_twice(y, x):
    y.copy_(x.sin())
    y.add_(x * x)
    return y[0]


def filled(y, x):
    y.zero_()
    y[1] = x[2]
    return


def shown_and_used(y, x):
    y.add_(x)
    return y.unsqueeze(0), y.sum(0, keepdim=True) * y, y


FUNCTIONS = [subtracted, scaled, scaled_in_part, seen_before, written_twice, filled, shown_and_used]


def outcome(function, compiled, make_target):
    """Values and gradients after a call, and after another call with the same target."""
    x, base = leaf(0.5, -1.5, 2.0), leaf(3.0, 0.25, -1.0)
    target = make_target(base)
    run = rl.compile(function) if compiled else function
    seen = []
    for _ in range(2):
        results = run(target, x)
        roots = [item for item in (results if isinstance(results, tuple) else (results,)) if item is not None]
        (sum((item * item).sum() for item in roots) + (target * target).sum()).backward(retain_graph=True)
        seen += [item.detach().numpy().copy() for item in (*roots, target, x.grad)]
        seen.append(None if base.grad is None else base.grad.numpy().copy())
        assert target.requires_grad
        assert not target.is_leaf
    return seen


TARGETS = {
    "leaf": lambda base: rl.tensor([3.0, 0.25, -1.0]),
    "computed": lambda base: base * 2.0,
    "view": lambda base: rl.tensor([9.0, 3.0, 0.25, -1.0, 9.0])[1:4],
    "view of computed": lambda base: rl.cat([base, base])[1:4],
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_an_argument_that_is_written_to_has_eager_history(function, target):
    expected, actual = (outcome(function, compiled, TARGETS[target]) for compiled in (False, True))
    for one, other in zip(expected, actual, strict=True):
        np.testing.assert_array_equal(one, other)


@both
def test_a_base_shows_the_gradients_of_writes_to_two_of_its_views(compiled):
    def write(one, two, x):
        one.mul_(x)
        two.mul_(x * 3.0)

    x, base = leaf(2.0, 5.0), rl.ones(6)
    run = rl.compile(write) if compiled else write
    run(base[0:2], base[3:5], x)
    (base * rl.arange(6.0)).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [9.0, 13.0])


@both
def test_a_tensor_that_the_function_reaches_has_a_history_after_each_call(compiled):
    state, x = rl.zeros(3), leaf(1.0, 2.0, 3.0)
    shown = state[1:]

    def step(x):
        state.add_(x * x)
        return shown * 2.0

    run = rl.compile(step) if compiled else step
    for _ in range(3):
        result = run(x)
    result.sum().backward(retain_graph=True)
    np.testing.assert_array_equal(x.grad.numpy(), [0.0, 24.0, 36.0])
    state.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [6.0, 36.0, 54.0])


def test_a_failed_trace_leaves_no_history_behind():
    state, x = rl.zeros(3), leaf(1.0, 2.0, 3.0)
    shown = state[1:]

    def step(x):
        state.add_(x)
        shown.mul_(x[0])
        raise KeyError("after the write")

    with pytest.raises(KeyError):
        rl.compile(step, fullgraph=True)(x)
    assert not state.requires_grad
    assert not shown.requires_grad
    assert state._version == 0
    (shown * x[1:]).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [0.0, 0.0, 0.0])


def test_a_leaf_that_requires_gradients_is_refused_after_an_intermediate_was_not():
    def double(h):
        h.mul_(2.0)

    run, x = rl.compile(double), leaf(1.0, 2.0)
    run(x * 1.0)
    with pytest.raises(AutogradError, match="a leaf that requires"):
        run(x)
    np.testing.assert_array_equal(x.detach().numpy(), [1.0, 2.0])


@pytest.mark.parametrize(("recorded", "reason"), [(False, "under no_grad"), (True, "of a leaf")])
def test_views_that_autograd_cannot_follow_are_refused_before_the_write(recorded, reason):
    base = leaf(1.0, 2.0, 3.0) if recorded else rl.ones(3)
    with rl.set_grad_enabled(recorded):
        view = base[:2]
    with pytest.raises(AutogradError, match=reason):
        rl.compile(subtracted)(view, leaf(4.0, 5.0))
    np.testing.assert_array_equal(base.detach().numpy(), [1.0, 2.0, 3.0] if recorded else [1.0, 1.0, 1.0])


def test_a_write_without_gradients_keeps_the_history():
    def halve(h):
        with rl.no_grad():
            h.mul_(0.5)

    for run in (halve, rl.compile(halve)):
        x = leaf(1.0, 2.0)
        h = x * 3.0
        run(h)
        h.sum().backward()
        np.testing.assert_array_equal(x.grad.numpy(), [3.0, 3.0])


def test_gradients_of_an_intermediate_argument_are_asked_for_inside():
    def slope(h):
        return rl.autograd.grad((h * h).sum(), h)[0]

    h = leaf(1.0, 2.0) * 3.0
    np.testing.assert_array_equal(rl.compile(slope)(h).detach().numpy(), [6.0, 12.0])


def test_histories_of_written_inputs_die_with_them():
    run = rl.compile(subtracted)
    x, target = leaf(1.0, 2.0), rl.ones(2)
    for _ in range(2):
        run(target, x)
    gc.collect()
    gc.disable()
    try:
        node = rl.ones(2)
        run(node, x)
        gone = weakref.ref(node.grad_fn)
        del node
        assert gone() is None
    finally:
        gc.enable()


@both
def test_a_view_of_another_dtype_gets_the_history_that_is_written_to_it(compiled):
    def function(whole, x):
        shown = whole.view(rl.float32)
        shown.mul_(x)
        return shown

    whole, x = rl.tensor([1065353216, 1073741824], dtype=rl.int32), leaf(3.0, 5.0)  # 1.0 and 2.0
    result = (rl.compile(function) if compiled else function)(whole, x)
    result.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [1.0, 2.0])
    np.testing.assert_array_equal(whole.numpy(), np.array([3.0, 10.0], np.float32).view(np.int32))


@pytest.mark.parametrize("full", [True, False])
def test_data_that_is_written_in_place_is_set_again(full):
    def trained(compiles):
        rl.manual_seed(0)
        model = rl.nn.Linear(3, 2)

        def step(x):
            loss = model(x).square().mean()
            loss.backward()
            for parameter in model.parameters():
                parameter.data -= 0.1 * parameter.grad.data
                parameter.grad = None
            return loss.detach()

        run = rl.compile(step, fullgraph=full) if compiles else step
        losses = [run(rl.full((4, 3), 1.0 + turn)).item() for turn in range(3)]
        return [losses, *[parameter.tolist() for parameter in model.parameters()]]

    assert trained(True) == trained(False)
    rl.compiler.reset()
    trained(True)
    assert rl.compiler.graph_count() == 1
