"""The tape: gradients, accumulation, hooks, versions, views under writes, higher orders, custom functions."""

import gc
import threading
import weakref

import numpy as np
import pytest

import rushlight as rl
from rushlight.eager import Tensor
from rushlight.eager.autograd.check import gradcheck, gradgradcheck
from rushlight.eager.autograd.driver import backward, grad
from rushlight.eager.autograd.function import Function
from rushlight.eager.autograd.modes import enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled
from rushlight.eager.autograd.saved import saved_tensors_hooks
from rushlight.eager.creation import arange, ones, tensor, zeros
from rushlight.eager.functions import stack
from rushlight.ir.dtype import float64
from rushlight.support.errors import RushlightError

RNG = np.random.default_rng(0)


def leaf(*shape):
    return tensor(RNG.standard_normal(shape), requires_grad=True)


def code_of(function):
    with pytest.raises(RushlightError) as error:
        function()
    return error.value.code


# Gradients.


def test_a_small_network_has_the_gradients_of_the_formula():
    x, w, b = leaf(3, 4), leaf(4, 2), leaf(2)
    y = x @ w + b
    (y * y).sum().backward()
    g = 2 * (x.detach().numpy() @ w.detach().numpy() + b.detach().numpy())
    np.testing.assert_allclose(x.grad.numpy(), g @ w.detach().numpy().T)
    np.testing.assert_allclose(w.grad.numpy(), x.detach().numpy().T @ g)
    np.testing.assert_allclose(b.grad.numpy(), g.sum(0))


PROGRAMS = {
    "broadcast": lambda x, y: x * y[0] + y,
    "views": lambda x, y: x.mT[1] * y.reshape(-1)[:3].exp(),
    "index": lambda x, y: x[[0, 2, 2], [1, 0, 1]] * y[tensor([True, False, True])].sum(),
    "write": lambda x, y: _written(x, y),
    "write view": lambda x, y: _written_view(x, y),
    "stack": lambda x, y: stack([x, y, x]).prod(0),
    "powers": lambda x, y: (x.abs() + 1) ** y / (y * y + 1),
    "composite": lambda x, y: x.softmax(-1).mT @ y,
}


def _written(x, y):
    z = x * 2
    z.mul_(y)
    z += x
    return z * z


def _written_view(x, y):
    z = x * 1.5
    z[1:].mul_(y[:2])
    z[0, 0] = y.sum()
    z.mT[1].exp_()
    return z * x


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_agree_with_finite_differences_twice(name):
    x, y = leaf(3, 2), leaf(3, 2)
    assert gradcheck(PROGRAMS[name], (x, y))
    assert gradgradcheck(PROGRAMS[name], (x, y))


def test_a_check_that_fails_leaves_its_inputs_alone():
    x = leaf(2)
    before = x.tolist()

    def fails_at_the_second(x):
        if x.tolist() != before:
            raise KeyError("mine")
        return x * 2

    with pytest.raises(KeyError):
        gradcheck(fails_at_the_second, (x,))
    assert x.tolist() == before


def test_gradcheck_can_fail():
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 3

    assert code_of(lambda: gradcheck(Wrong.apply, (leaf(2),))) == "G013"
    assert gradcheck(Wrong.apply, (leaf(2),), raise_exception=False) is False


def test_numbers_get_no_gradient_and_do_not_become_constants():
    x = leaf(3)
    for factor in (2.0, 3.0, 0.5):
        (found,) = grad((x * factor).sum(), x)
        assert found.tolist() == [factor] * 3


def test_integer_results_have_no_history():
    x = leaf(3)
    assert (x > 0).requires_grad is False
    assert x.argmax().requires_grad is False
    values, indices = x.max(0)
    assert values.requires_grad
    assert indices.requires_grad is False


def test_gradients_fold_in_reverse_order_of_calls():
    x = tensor([0.1], requires_grad=True)
    parts = [x * np.float64(value).item() for value in (1e8, 1.0, -1e8, 3.0)]
    total = parts[0] + parts[1] + parts[2] + parts[3]
    (found,) = grad(total, x)
    expected = np.float32(3.0)
    for value in (-1e8, 1.0, 1e8):
        expected = np.float32(expected + np.float32(value))
    assert found.item() == expected


# Leaves and accumulation.


def test_gradients_accumulate_until_they_are_cleared():
    x = leaf(2)
    (x * 2).sum().backward()
    first = x.grad
    (x * 3).sum().backward()
    assert x.grad is first
    assert x.grad.tolist() == [5.0, 5.0]
    x.grad = None
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_a_leaf_takes_a_gradient_only_if_nobody_else_has_it():
    x, y = leaf(2, 2), leaf(2, 2)
    (x + y).backward(ones(2, 2, dtype=float64))
    assert x.grad.data_ptr() != y.grad.data_ptr()
    given = ones(2, 2, dtype=float64)
    z = leaf(2, 2)
    z.mul(1.0).view(2, 2).backward(given)
    assert z.grad.data_ptr() != given.data_ptr()
    seen = []
    w = leaf(2, 2)
    product = w * 3
    product.register_hook(seen.append)
    w.register_hook(seen.append)
    product.sum().backward()
    seen[1].mul_(100)
    assert w.grad.tolist() == [[3.0, 3.0], [3.0, 3.0]]


def test_a_gradient_is_stored_in_the_layout_of_its_leaf():
    x = tensor(np.zeros((3, 2))).mT.clone().requires_grad_()
    assert x.stride() == (1, 2)
    (x * tensor(np.ones((2, 3)))).sum().backward()
    assert x.grad.stride() == (1, 2)
    y = leaf(4)
    y.expand(3, 4).sum().backward()
    assert y.grad.tolist() == [3.0] * 4


@pytest.mark.parametrize(("shape", "strides"), [((3, 5), (3, 2)), ((3, 3), (2, 2))])
def test_the_gradient_of_a_leaf_whose_elements_overlap_is_row_major(shape, strides):
    """Such a leaf may reach over as many elements as it has."""
    x = arange(15.0).as_strided(shape, strides).requires_grad_()
    for run in (lambda x: x * 2.0, rl.compile(lambda x: x * 2.0)):
        x.grad = None
        run(x).sum().backward()
        assert x.grad.tolist() == np.full(shape, 2.0).tolist()
        assert x.grad.is_contiguous()


def test_accumulation_under_create_graph_leaves_the_old_gradient_alone():
    x = leaf(2)
    (x * x).sum().backward()
    first, values = x.grad, x.grad.tolist()
    (x * x * x).sum().backward(create_graph=True)
    assert x.grad is not first
    assert first.tolist() == values
    assert x.grad.requires_grad


def test_grad_returns_and_accumulates_nothing():
    x, y = leaf(2), leaf(2)
    a = x * y
    (gx,) = grad(a.sum(), x)
    np.testing.assert_array_equal(gx.numpy(), y.detach().numpy())
    assert x.grad is None
    assert code_of(lambda: grad((x * 2).sum(), y)) == "G009"
    assert grad((x * 2).sum(), y, allow_unused=True) == (None,)
    assert grad((x * 2).sum(), y, materialize_grads=True)[0].tolist() == [0.0, 0.0]


def test_grad_with_respect_to_results_in_between():
    x = leaf(2)
    y = x * 2
    z = (y * y).sum()
    gy, gx = grad(z, [y, x])
    np.testing.assert_allclose(gy.numpy(), 2 * y.detach().numpy())
    np.testing.assert_allclose(gx.numpy(), 2 * gy.numpy())


def test_backward_with_inputs_reaches_only_them():
    x, y = leaf(2), leaf(2)
    backward([(x * y).sum()], inputs=[x])
    assert x.grad is not None
    assert y.grad is None


def test_several_roots_share_one_pass():
    x = leaf(2)
    y = x * 2
    backward([y.sum(), (y * y).sum()])
    np.testing.assert_allclose(x.grad.numpy(), 2 + 4 * y.detach().numpy())


# Errors.


def test_errors_of_backward_have_codes():
    x = leaf(2)
    assert code_of(lambda: (x * 2).backward()) == "G004"
    assert code_of(lambda: tensor([1.0]).backward()) == "G005"
    assert code_of(lambda: (x * 2).backward(ones(3))) == "G007"
    y = (x * x).sum()
    y.backward()
    assert code_of(y.backward) == "G001"
    z = (x * x).sum()
    z.backward(retain_graph=True)
    z.backward()
    assert code_of(lambda: setattr(x * 2, "requires_grad", False)) == "G011"
    assert code_of(lambda: (x * 2).numpy()) == "G012"
    with rl.no_grad():
        assert x.numpy().tolist() == x.tolist()
    assert code_of(lambda: x.argmax().requires_grad_()) == "D005"


def test_a_changed_saved_tensor_is_an_error_that_shows_the_forward_line():
    x = leaf(2)
    y = x * 2
    z = y.exp()  # the line
    z.add_(1)
    with pytest.raises(RushlightError) as error:
        z.sum().backward()
    assert error.value.code == "G003"
    assert "z = y.exp()  # the line" in str(error.value)


def test_only_what_a_rule_reads_is_saved():
    x, y = leaf(2), leaf(2)
    scaled = y * 1.0
    product = x * scaled.detach()  # the gradient of x reads the other factor only
    total = x + scaled
    held = scaled.detach()
    scaled.add_(1)
    total.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]
    assert code_of(product.sum().backward) == "G003"
    assert held.data_ptr() == scaled.data_ptr()


def test_leaves_and_untracked_views_cannot_be_written_to():
    x = leaf(2, 2)
    assert code_of(lambda: x.add_(1)) == "G002"
    assert code_of(lambda: x[0].add_(1)) == "G006"
    with no_grad():
        x.add_(1)
        x[0].zero_()
    y = x * 2
    with no_grad():
        view = y[0]
    assert code_of(lambda: view.mul_(x[1])) == "G006"
    plain = zeros(2, dtype=float64)
    with pytest.raises(RushlightError, match="out="):
        from rushlight.eager.functions import add

        add(x[0], 1.0, out=plain)


def test_an_error_in_backward_names_the_forward_line():
    class Failing(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            raise ValueError("no")

    y = Failing.apply(leaf(2))  # recorded here
    with pytest.raises(ValueError, match="no") as error:
        y.sum().backward()
    assert any("recorded here" in note for note in error.value.__notes__)


# Writes and views.


def test_a_write_to_a_base_changes_the_history_of_its_views():
    x = leaf(3)
    base = x * 1
    view = base[1:]
    base.mul_(x)
    assert view.grad_fn.name() == "SliceBackward0"
    view.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [0, *(2 * x.detach().numpy()[1:])])


def test_in_place_forms_of_composites_have_gradients():
    def program(x, y, mask):
        x, y = x * 2, y * 3
        x[0].masked_fill_(mask, 1.5)
        x[mask.expand(2, 2)] = 2.5
        return x.addcmul_(x, y)  # the old value is saved, and read after the write

    x, y = (tensor(values, dtype=float64, requires_grad=True) for values in ([[1.0, -2], [3, 4]], [[2.0, 1], [-1, 1]]))
    mask = tensor([True, False])
    program(x, y, mask).sum().backward()
    assert x.grad.tolist() == [[0, 8], [0, 8]]
    assert y.grad.tolist() == [[7.5, -12], [7.5, 24]]
    assert gradcheck(lambda x, y: program(x, y, mask), (x, y)) and gradgradcheck(
        lambda x, y: program(x, y, mask), (x, y)
    )


@pytest.mark.parametrize(
    ("write", "value"),
    [
        (lambda x: x.mul_(x), lambda x: x * x),
        (lambda x: x.pow_(x), lambda x: x**x),
        (lambda x: x.mul_(x[0]), lambda x: x * x[0]),
        (lambda x: x.t().mul_(x), lambda x: (x.t() * x).t()),
        (lambda x: x.addcmul_(x[0], x), lambda x: x + x[0] * x),
        (lambda x: x.div_(x.detach()), lambda x: x / x.detach()),
    ],
)
def test_operands_that_a_write_changes_are_saved_as_they_were(write, value):
    found = [zeros(0), zeros(0)]
    for at, run in enumerate((lambda x: (write(x), x)[1], value)):
        leaf = tensor([[2.0, 3.0], [1.0, 4.0]], dtype=float64, requires_grad=True)
        run(leaf * 1.5).backward(tensor([[1.0, 2.0], [3.0, 4.0]], dtype=float64))
        found[at] = leaf.grad
    assert found[0].tolist() == found[1].tolist()


def test_a_plain_tensor_gets_a_history_from_a_write():
    w = leaf(2)
    base = zeros(2, 2, dtype=float64)
    other = base[1]
    base[0].add_(w)
    assert base.requires_grad
    assert other.requires_grad
    (base * base).sum().backward()
    np.testing.assert_allclose(w.grad.numpy(), 2 * w.detach().numpy())


def test_detach_shares_memory_and_versions_but_no_history():
    x = leaf(2)
    y = x * 2
    cut = y.detach()
    assert cut.requires_grad is False
    assert cut.data_ptr() == y.data_ptr()
    z = y.exp()
    cut.add_(1)
    z.sum().backward()  # exp saved its result, not y
    w = x * x
    square = w * w
    w.detach().zero_()
    assert code_of(square.sum().backward) == "G003"
    assert x.data.requires_grad is False
    before = x._version
    x.data.mul_(2)
    assert x._version == before


# Modes.


def test_grad_modes_nest_and_are_restored():
    x = leaf(2)
    with no_grad():
        assert not is_grad_enabled()
        assert not (x * 2).requires_grad
        with enable_grad():
            assert (x * 2).requires_grad
        with set_grad_enabled(True):
            assert is_grad_enabled()
        assert not is_grad_enabled()
    assert is_grad_enabled()
    set_grad_enabled(False)
    assert not is_grad_enabled()
    set_grad_enabled(True)
    with pytest.raises(ZeroDivisionError), inference_mode():
        assert not (x * 2).requires_grad
        _ = 1 // 0
    assert is_grad_enabled()

    @no_grad()
    def called(value):
        return value * 2

    @no_grad
    def bare(value):
        return value * 2

    @no_grad()
    def generated(value):
        yield value * 2
        assert not is_grad_enabled()
        yield value * 3

    assert not called(x).requires_grad
    assert not bare(x).requires_grad
    for item in generated(x):
        assert is_grad_enabled()
        assert not item.requires_grad


def test_grad_mode_belongs_to_the_thread():
    found = []
    with no_grad():
        thread = threading.Thread(target=lambda: found.append(is_grad_enabled()))
        thread.start()
        thread.join()
    assert found == [True]


# Hooks.


def test_hooks_run_in_order_and_may_replace_gradients():
    x = leaf(2)
    log = []
    y = x * 2
    y.register_hook(lambda g: log.append("first") or g * 10)
    removed = y.register_hook(lambda g: log.append("removed"))
    y.register_hook(lambda g: log.append(("second", g.tolist())))
    removed.remove()
    x.register_hook(lambda g: log.append("leaf"))
    x.register_post_accumulate_grad_hook(lambda t: log.append(("done", t.grad.tolist())))
    y.sum().backward()
    assert log == ["first", ("second", [10.0, 10.0]), "leaf", ("done", [20.0, 20.0])]


def test_node_hooks_see_and_replace_gradients():
    x = leaf(2)
    y = x * 2
    seen = []
    y.grad_fn.register_prehook(lambda grads: (grads[0] * 5,))
    y.grad_fn.register_hook(lambda inputs, outputs: seen.append((len(inputs), outputs[0].tolist())))
    y.sum().backward()
    assert seen == [(2, [5.0, 5.0])]
    assert x.grad.tolist() == [10.0, 10.0]
    assert y.grad_fn.next_functions[0][0].name() == "AccumulateGrad"


def test_retain_grad_keeps_the_gradient_of_results():
    x = leaf(2)
    y = x * 2
    y.retain_grad()
    y.register_hook(lambda g: g * 3)
    (y * y).sum().backward()
    np.testing.assert_allclose(y.grad.numpy(), 6 * y.detach().numpy())
    with pytest.warns(UserWarning, match="not a leaf"):
        assert (x * 2).grad is None


# Higher orders.


def test_third_derivatives():
    x = leaf(3)
    value = (x**4).sum()
    for factor, power in ((4, 3), (12, 2), (24, 1)):
        (found,) = grad(value, x, create_graph=True)
        np.testing.assert_allclose(found.detach().numpy(), factor * x.detach().numpy() ** power, rtol=1e-6)
        value = found.sum()


def test_a_gradient_step_can_be_differentiated():
    w = leaf(3)
    x = tensor(RNG.standard_normal((5, 3)))

    def outer(w):
        loss = (x @ w).pow(2).mean()
        (g,) = grad(loss, w, create_graph=True)
        return (x @ (w - 0.1 * g)).exp().mean()

    assert gradcheck(outer, (w,))


# Lifetime and depth.


def test_graphs_are_freed_without_the_garbage_collector():
    gc.collect()
    gc.disable()
    try:
        x = leaf(3)
        y = (x.exp() * x.softmax(0)).mT if x.ndim > 1 else x.exp() * x.softmax(0)
        base = y * 2
        base[0].mul_(3)
        node, result = weakref.ref(y.grad_fn), weakref.ref(base)
        del y, base
        assert node() is None
        assert result() is None
    finally:
        gc.enable()


def test_a_chain_of_20000_calls_is_differentiated_and_freed():
    x = tensor(1.0, requires_grad=True)
    y = x
    for _ in range(20000):
        y = y + 1.0
    y.backward()
    assert x.grad.item() == 1.0
    del y


def test_threads_differentiate_their_own_graphs():
    x = leaf(4)
    found = []

    def work(factor):
        (g,) = grad((x * factor * x).sum(), x)
        found.append((factor, g.tolist()))

    threads = [threading.Thread(target=work, args=(float(number),)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for factor, values in found:
        np.testing.assert_allclose(values, 2 * factor * x.detach().numpy())
    assert len(found) == 4
    assert isinstance(x, Tensor)
    assert arange(2).requires_grad is False


def test_saved_tensors_can_be_kept_elsewhere():
    x = leaf(3)
    kept = []

    def pack(saved):
        kept.append(saved.detach().numpy().copy())
        return len(kept) - 1

    with saved_tensors_hooks(pack, lambda number: tensor(kept[number])):
        y = (x * x).exp()
    assert len(kept) == 3
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * x.detach().numpy() * y.detach().numpy())


def test_a_view_by_strides_follows_writes_beyond_the_view_that_it_is_taken_of():
    """What it shows is told by the base: PyTorch's gradients."""
    x = ones(2).requires_grad_()
    base = x * 1
    part = base[0:1]
    beyond = part.as_strided((), (), 1)
    part.zero_()
    beyond.backward()
    assert x.grad.tolist() == [0.0, 1.0]

    y = ones(1).requires_grad_()
    narrow = arange(18.0)[:1]
    wide = narrow.as_strided((1, 2), (3, 3), 6)
    wide[:, :] = y
    wide.sum().backward()
    assert y.grad.tolist() == [2.0]
