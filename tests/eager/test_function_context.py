"""Custom functions and their `ctx`, as PyTorch 2.13 has them."""

import pytest

import rushlight as rl
from rushlight.autograd import Function
from rushlight.eager.autograd.function import FunctionCtx


def leaf(*shape):
    return rl.ones(*shape, requires_grad=True)


class Times(Function):
    @staticmethod
    def forward(ctx: FunctionCtx, x, y, factor=2):
        assert isinstance(ctx, FunctionCtx)
        ctx.save_for_backward(x, None, y)
        ctx.factor = factor
        return x * y * factor

    @staticmethod
    def backward(ctx, gradient):
        x, nothing, y = ctx.saved_tensors
        assert nothing is None
        first, second, *rest = ctx.needs_input_grad
        assert not any(rest)
        return (
            gradient * y * ctx.factor if first else None,
            gradient * x * ctx.factor if second else None,
            None,
        )


def test_nothing_is_saved_as_none_and_gradients_are_asked_for():
    x, y = leaf(3), rl.full((3,), 4.0)
    Times.apply(x, y, 3).sum().backward()
    assert x.grad.tolist() == [12.0] * 3 and y.grad is None
    x, y = rl.ones(3), leaf(3)
    Times.apply(x, y).sum().backward()
    assert y.grad.tolist() == [2.0] * 3 and x.grad is None


class Written(Function):
    @staticmethod
    def forward(ctx, x):
        x.add_(1)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 3


@pytest.mark.parametrize("view", [lambda x: x[0], lambda x: x[:, 1:], lambda x: x.t()[1], lambda x: x.view(-1)[2:4]])
def test_a_base_follows_a_function_that_writes_to_its_view(view):
    source = leaf(2, 3)
    base = source * 1
    part = view(base)
    assert Written.apply(part) is part
    (base * 10).sum().backward()
    expected = rl.full((2, 3), 10.0)
    view(expected).mul_(3)
    assert source.grad.tolist() == expected.tolist()


def test_a_base_without_gradients_gets_those_of_what_is_written_to_its_view():
    class Add(Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.mark_dirty(x)
            return x.add_(y)

        @staticmethod
        def backward(ctx, gradient):
            return gradient, gradient * 5

    base, y = rl.zeros(2, 3), leaf(3)
    Add.apply(base[1], y)
    base.sum().backward()
    assert y.grad.tolist() == [5.0] * 3 and base.tolist() == [[0.0] * 3, [1.0] * 3]


def test_leaves_are_not_written_to():
    for make in (leaf, lambda *shape: rl.ones(6).reshape(*shape).requires_grad_()):
        with pytest.raises(RuntimeError, match="leaf that requires gradients"):
            Written.apply(make(2, 3))
        with pytest.raises(RuntimeError, match="leaf that requires gradients"):
            make(2, 3).add_(1)
    with pytest.raises(RuntimeError, match="view of a leaf"):
        Written.apply(leaf(2, 3)[0])


class Shaped(Function):
    @staticmethod
    def forward(ctx, x, shape):
        ctx.shape = shape
        return x * 1

    @staticmethod
    def backward(ctx, gradient):
        return rl.ones(ctx.shape, dtype=rl.float64), None


@pytest.mark.parametrize(
    ("given", "shape", "expected"),
    [
        ((3,), (2, 3), [2.0, 2.0, 2.0]),
        ((1,), (4, 3), [12.0]),
        ((), (2, 2), 4.0),
        ((2, 1), (5, 2, 3), [[15.0], [15.0]]),
        ((3,), (3,), [1.0, 1.0, 1.0]),
        ((0,), (2, 0), []),
    ],
)
def test_gradients_of_a_broadcast_input_are_summed(given, shape, expected):
    x = leaf(*given)
    Shaped.apply(x, shape).sum().backward()
    assert x.grad.tolist() == expected and x.grad.dtype is rl.float32


@pytest.mark.parametrize(("given", "shape"), [((3,), (4,)), ((3,), ()), ((1,), ()), ((3,), (3, 1)), ((2, 3), (3,))])
def test_gradients_of_another_shape_are_refused(given, shape):
    with pytest.raises(RuntimeError, match="has not its input's shape"):
        Shaped.apply(leaf(*given), shape).sum().backward()


def test_compiled_functions_sum_them_too():
    def total(x):
        return (Shaped.apply(x * 2, (4, 3)) * 3).sum()

    eager, compiled = leaf(3), leaf(3)
    total(eager).backward()
    rl.compile(total)(compiled).backward()
    assert eager.grad.tolist() == compiled.grad.tolist() == [8.0] * 3


def test_what_is_no_tensor_is_not_saved():
    class Number(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(1)
            return x * 1

    with pytest.raises(TypeError, match="tensors are expected"):
        Number.apply(leaf(3))


def test_outputs_without_gradients_and_those_that_nobody_used():
    seen = []

    class Several(Function):
        @staticmethod
        def forward(x):
            return x * 2, x.argsort(), x + 1, x * 3

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.mark_non_differentiable(output[1], output[2])
            ctx.set_materialize_grads(False)

        @staticmethod
        def backward(ctx, *gradients):
            seen.extend(item is None for item in gradients)
            return gradients[0] * 2

    x = leaf(3)
    first, order, moved, last = Several.apply(x)
    assert (first.requires_grad, order.requires_grad, moved.requires_grad, last.requires_grad) == (1, 0, 0, 1)
    first.sum().backward()
    assert seen == [False, True, True, True] and x.grad.tolist() == [2.0] * 3


def test_what_is_marked_dirty_counts_as_changed_for_those_who_saved_it():
    class Unseen(Function):
        @staticmethod
        def forward(ctx, x):
            x.detach().numpy()[:] += 1
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, gradient):
            return gradient

    x = leaf(3) * 1
    square = x * x
    before = x._version
    assert Unseen.apply(x) is x and x._version == before + 1
    assert x.tolist() == [2.0] * 3
    with pytest.raises(RuntimeError, match="changed in place"):
        square.sum().backward()


def test_compiled_functions_write_to_views_as_eager_ones_do():
    def total(x):
        base = x * 2
        Written.apply(base[:, 1:])
        return (base * base).sum()

    results = []
    for function in (total, rl.compile(total)):
        x = leaf(2, 3)
        function(x).backward()
        results.append(x.grad.tolist())
    assert results[0] == results[1] == [[8.0, 36.0, 36.0]] * 2
