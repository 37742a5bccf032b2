"""Details of backward passes that PyTorch's own tests ask for: retained gradients, hooks, batches, names of nodes."""

import numpy as np
import pytest

import rushlight as rl
from rushlight.support import settings
from rushlight.support.errors import DeprecationNotice, RushlightError, forget_warnings


@pytest.fixture(params=["plain", "compiled autograd"])
def driver(request):
    """Both drivers of backward passes."""
    with settings.override(compiled_autograd=request.param != "plain"):
        yield


by_both_drivers = pytest.mark.usefixtures("driver")


@by_both_drivers
def test_a_retained_gradient_accumulates():
    x = rl.rand(1, 3, requires_grad=True)
    h = x * 3
    out = (h * h).sum()
    h.retain_grad()
    out.backward(retain_graph=True)
    first = h.grad
    out.backward(retain_graph=True)
    assert (h.grad == h * 4).all()
    assert (first == h * 2).all(), "another owner of the first sum saw it change"


@by_both_drivers
def test_a_retained_gradient_is_that_of_the_latest_elements():
    a = rl.tensor([1.0], requires_grad=True).clone()
    a.retain_grad()
    a.mul_(2)
    a.mul_(2)
    a.sum().backward()
    assert a.grad.item() == 1


def test_a_retained_gradient_follows_writes_to_views():
    x = rl.tensor([1.0], requires_grad=True).clone()
    x.retain_grad()
    view = x[:]
    view.retain_grad()
    view *= 2
    x *= 2
    x.sum().backward()
    assert x.grad.item() == 1


@by_both_drivers
def test_hooks_of_a_node_run_where_it_runs():
    a = rl.tensor(1.0, requires_grad=True)
    b = a * 2
    c = b * 2
    seen = [0, 0, 0]

    def count(at):
        def hook(*_):
            seen[at] += 1

        return hook

    sink = b.grad_fn.next_functions[0][0]
    a.register_hook(count(0))
    b.register_hook(count(0))
    for node in (sink, b.grad_fn):
        node.register_prehook(count(1))
        node.register_hook(count(2))

    def counts(call):
        seen[:] = [0, 0, 0]
        call()
        return list(seen)

    assert counts(lambda: rl.autograd.grad(c, (b,), retain_graph=True)) == [1, 0, 0]
    assert counts(lambda: rl.autograd.grad(c, (a, b), retain_graph=True)) == [2, 1, 1]
    assert counts(lambda: c.backward(retain_graph=True)) == [2, 2, 2]
    assert counts(lambda: c.backward(inputs=(a, b), retain_graph=True)) == [2, 2, 2]


@pytest.mark.parametrize("create_graph", [False, True])
def test_gradients_of_a_batch_are_those_of_its_places(create_graph):
    x = rl.arange(6, dtype=rl.float64).reshape(2, 3).requires_grad_()
    y = rl.ones(3, dtype=rl.float64, requires_grad=True)
    z = x**2 * y
    batch = rl.randn(4, 2, 3, dtype=rl.float64)
    how = {"retain_graph": True, "create_graph": create_graph}
    together = rl.autograd.grad(z, (x, y), batch, is_grads_batched=True, **how)
    for place in range(4):
        alone = rl.autograd.grad(z, (x, y), batch[place], **how)
        for one, every in zip(alone, together, strict=True):
            np.testing.assert_array_equal(every[place].detach(), one.detach())
    if create_graph:
        (second,) = rl.autograd.grad(together[0].sum(), x)
        np.testing.assert_allclose(second, 2 * batch.sum(0))


def test_a_batch_of_gradients_and_none():
    x, unused = rl.ones(3, requires_grad=True), rl.ones(1, requires_grad=True)
    outputs = (x * 2, (x * 3).sum())
    given = (rl.ones(2, 3), rl.tensor([1.0, 2.0]))
    found = rl.autograd.grad(outputs, (x, unused), given, is_grads_batched=True, allow_unused=True)
    assert found[0].tolist() == [[5] * 3, [8] * 3]
    assert found[1] is None


def test_gradcheck_of_batches():
    x = rl.rand(2, 3, dtype=rl.float64, requires_grad=True)
    assert rl.autograd.gradcheck(lambda a: a.sin() * a, x, check_batched_grad=True)
    assert rl.autograd.gradgradcheck(lambda a: a.sin() * a, x, check_batched_grad=True)


def test_gradients_to_start_from_are_cast():
    x = rl.ones(2, dtype=rl.float64, requires_grad=True)
    (x * 2).backward(rl.ones(2))
    assert x.grad.dtype is rl.float64
    assert x.grad.tolist() == [2, 2]
    with pytest.raises(RushlightError, match="does not fit"):
        (x * 2).backward(rl.ones(2, dtype=rl.complex64))


def test_gradients_of_nothing():
    x, unused = rl.ones(2, requires_grad=True), rl.ones(3, requires_grad=True)
    with pytest.raises(ValueError, match="no inputs"):
        rl.autograd.grad(x.sum(), [])
    with pytest.raises(ValueError, match="allow_unused"):
        rl.autograd.grad(x.sum(), unused, allow_unused=False, materialize_grads=True)
    (zeros,) = rl.autograd.grad(x.sum(), unused, materialize_grads=True)
    assert zeros.tolist() == [0, 0, 0]
    assert zeros.requires_grad


def test_nodes_have_classes_of_their_names():
    x = rl.ones(3, requires_grad=True)
    y = (x * 2).exp()
    assert type(y.grad_fn).__name__ == "ExpBackward0"
    assert y.grad_fn is y.grad_fn
    assert type(y.grad_fn.next_functions[0][0]).__name__ == "MulBackward0"
    y.sum().backward()
    np.testing.assert_allclose(x.grad, 2 * np.exp(np.full(3, 2)), rtol=1e-6)


def test_nodes_show_what_they_saved():
    x = rl.ones(3, requires_grad=True)
    assert (x * 2).grad_fn._saved_other == 2
    y = x.exp()
    assert y.grad_fn._saved_result.tolist() == y.tolist()
    assert (x**3).grad_fn._saved_self is x
    assert x.softmax(0).grad_fn._saved_dim == 0
    assert "_saved_self" in dir((x**3).grad_fn)
    with pytest.raises(AttributeError, match="has not saved"):
        _ = (x * 2).grad_fn._saved_nothing
    y.sum().backward()
    with pytest.raises(RushlightError, match="freed"):
        _ = y.grad_fn._saved_result


def test_defaults_of_a_forward_are_inputs():
    class Power(rl.autograd.Function):
        @staticmethod
        def forward(x, y=3):
            return x**y

        @staticmethod
        def setup_context(ctx, inputs, output):
            x, ctx.y = inputs
            ctx.save_for_backward(x)

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * ctx.y * x ** (ctx.y - 1), None

    x = rl.tensor(2.0, requires_grad=True)
    power = Power.apply(x)
    assert type(power.grad_fn).__name__ == "PowerBackward"
    power.backward()
    assert x.grad.item() == 12
    assert Power.apply(x, 2).item() == 4


def test_generators_end_in_their_mode():
    seen = []

    @rl.no_grad()
    def count():
        try:
            while True:
                yield rl.is_grad_enabled()
        except ValueError:
            yield "thrown", rl.is_grad_enabled()
        finally:
            seen.append(rl.is_grad_enabled())

    generator = count()
    assert next(generator) is False
    assert generator.throw(ValueError()) == ("thrown", False)
    generator.close()
    assert seen == [False]
    assert rl.is_grad_enabled()


def test_a_decorator_of_a_mode_sets_nothing():
    @rl.set_grad_enabled(False)
    def function():
        return rl.is_grad_enabled()

    assert rl.is_grad_enabled()
    assert not function()
    assert rl.is_grad_enabled()


def test_data_of_a_leaf_stays_floating_point():
    x = rl.ones(2, requires_grad=True)
    with pytest.raises(RushlightError, match="floating-point"):
        x.data = rl.tensor([1, 2])


@pytest.mark.parametrize(
    ("index", "equal"),
    [
        ([[0, 4], [2, 2]], ([0, 4], [2, 2])),
        ([slice(0, 2)], (slice(0, 2),)),
        ([None, 0], (None, 0)),
        ([[0, 1], slice(None)], ([0, 1], slice(None))),
        ([[0, 4, 1]], ([0, 4, 1],)),
    ],
)
def test_a_list_of_indices_is_a_tuple(index, equal):
    x = rl.arange(125).reshape(5, 5, 5)
    forget_warnings()
    with pytest.warns(DeprecationNotice, match="list of indices"):
        found = x[index]
    assert found.tolist() == x[equal].tolist()
    written, expected = x.clone(), x.clone()
    written[index] = -1
    expected[equal] = -1
    assert written.tolist() == expected.tolist()


def test_a_list_of_numbers_is_one_index():
    x = rl.arange(125).reshape(5, 5, 5)
    assert x[[0, 1]].shape == (2, 5, 5)
    assert x[[[0, 1]] * 32].shape == (32, 2, 5, 5)
    assert x[[rl.tensor(1), rl.tensor(2)]].tolist() == x[1, 2].tolist()


@pytest.mark.parametrize("name", ["abs", "erfinv", "logaddexp", "logaddexp2", "sinc"])
def test_a_result_may_be_changed_where_its_operand_is_kept(name):
    rng = np.random.default_rng(0)
    parts = 1j * rng.uniform(0.1, 0.9, (3, 4)) if name == "abs" else 0
    leaves = [rl.tensor(rng.uniform(0.1, 0.9, (3, 4)) + parts).requires_grad_() for _ in range(2)]
    args = leaves if name.startswith("log") else leaves[:1]
    result = getattr(rl, name)(*args)
    expected = rl.autograd.grad(result.sum() * 2, args, retain_graph=True)
    result.mul_(2)
    for found, one in zip(rl.autograd.grad(result.sum(), args), expected, strict=True):
        np.testing.assert_array_equal(found, one)


def test_batches_of_gradients_go_through_writes():
    def written(x):
        y = x * 1
        y[:, 1:] = y[:, 1:] * 2
        y.t().mul_(3)
        return y

    x = rl.randn(3, 4, dtype=rl.float64, requires_grad=True)
    assert rl.autograd.gradcheck(written, x, check_batched_grad=True)
    assert rl.autograd.gradgradcheck(written, x, check_batched_grad=True)


@pytest.mark.parametrize("start", [3, True])
def test_integers_start_gradients(start):
    x = rl.ones(3, requires_grad=True)
    (x * 2).sum().backward(rl.tensor(start))
    assert x.grad.dtype is rl.float32 and x.grad.tolist() == [2.0 * start] * 3
    with pytest.raises(RuntimeError):
        (x * 2).sum().backward(rl.tensor(1j))


@by_both_drivers
def test_a_retained_gradient_is_the_one_before_hooks_of_the_node():
    """Hooks on the tensor come first, whenever they are registered."""
    a = rl.tensor(1.0, requires_grad=True)
    b = a * 2
    b.retain_grad()
    b.grad_fn.register_prehook(lambda gradients: (gradients[0] * 2,))
    b.register_hook(lambda gradient: gradient * 3)
    b.backward()
    assert b.grad.item() == 3
    assert a.grad.item() == 12


def test_nodes_keep_what_a_program_gives_them():
    y = rl.tensor(1.0, requires_grad=True).exp()
    y.grad_fn.metadata["line"] = 3
    assert (y * 2).grad_fn.next_functions[0][0].metadata == {"line": 3}
    assert (y * 2).grad_fn.metadata == {}


@pytest.mark.parametrize("name", ["max", "min", "amax", "amin"])
def test_nans_that_are_the_extreme_share_its_gradient(name):
    for values, shares in (
        ([1.0, np.nan, 0.0, np.nan], [0.0, 0.5, 0.0, 0.5]),
        ([np.nan] * 4, [0.25] * 4),
        ([2.0, 2.0, 2.0, 2.0], [0.25] * 4),
    ):
        for run in (getattr(rl, name), rl.compile(getattr(rl, name))):
            x = rl.tensor(values, requires_grad=True)
            run(x).backward()
            assert x.grad.tolist() == shares
