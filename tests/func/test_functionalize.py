"""Functions without writes: results, gradients, arguments and what shares memory are those of the function itself."""

from collections import Counter

import pytest

import rushlight as rl
from rushlight.func import functionalize, grad
from rushlight.fx.experimental.proxy_tensor import make_fx
from rushlight.support.errors import RushlightError
from tensors import same
from tools.fuzz import functional


@pytest.mark.row("1.5")
@pytest.mark.parametrize("part", range(4))
def test_programs_of_views_and_writes_are_what_they_are_functionalised(part):
    skipped = Counter()
    for number in range(part * 5 + 1, part * 5 + 6):
        finding = functional.judge(functional.generate(5, number), skipped)
        assert finding is None, str(finding)
    assert skipped["compiled too"]


def writes(x, y):
    view = x[1:]
    view.mul_(2)
    view[0].add_(y)
    fresh = rl.zeros(3)
    fresh[:2] = y
    return view, x.sum(), fresh, fresh[1:], x


def test_arguments_and_aliases_are_those_of_the_function():
    outcomes = []
    for function in (writes, functionalize(writes)):
        x, y = rl.arange(6.0).reshape(3, 2), rl.tensor([1.0, 2.0])
        base = x.view(-1)
        view, total, fresh, part, back = function(x, y)
        assert back is x
        view.fill_(7)
        part.fill_(9)
        outcomes.append([x.tolist(), base.tolist(), total.item(), fresh.tolist()])
    assert outcomes[0] == outcomes[1]


def test_arguments_that_share_memory_see_each_others_writes():
    def function(a, b):
        a.add_(1)
        return b * 2

    outcomes = []
    for one in (function, functionalize(function)):
        a = rl.arange(4.0)
        outcomes.append((one(a, a[1:]).tolist(), a.tolist()))
    assert outcomes[0] == outcomes[1]


def test_gradients_go_through_writes():
    def loss(x, w):
        y = x.clone()
        y[0] *= w
        y.add_(x)
        return (y * y).sum()

    x, w = rl.rand(3, 2), rl.rand(2)
    for argnums in (0, 1):
        same(grad(functionalize(loss), argnums)(x, w), grad(loss, argnums)(x, w))
    a = rl.rand(3, requires_grad=True)
    b = a * 1
    functionalize(lambda t: t.mul_(a))(b)
    b.sum().backward()
    same(a.grad, 2 * a.detach())


def test_its_graph_has_no_writes_but_copies_at_the_end():
    module = make_fx(functionalize(writes))(rl.rand(3, 2), rl.rand(2))
    names = [node.target.__name__ for node in module.graph.nodes if node.op == "call_function"]
    assert [name for name in names if name.endswith("_")] == ["copy_"]
    assert names[-1] == "copy_"


def test_random_numbers_and_sizes_of_values_are_those_of_the_function():
    def function(x):
        x.add_(rl.rand(3))
        return x[x > 0.5], x.argmax()

    outcomes = []
    for one in (function, functionalize(function)):
        rl.manual_seed(1)
        outcomes.append([value.tolist() for value in one(rl.zeros(3))] + [rl.rand(1).item()])
    assert outcomes[0] == outcomes[1]


def filled(x):
    y = x * 2
    y.t()[:, None].fill_(3)
    return y


def copied(x):
    y = x * 2
    return y.copy_(x.exp())


@pytest.mark.parametrize("function", [filled, copied])
def test_what_is_written_over_has_a_gradient_of_zeros(function):
    gradients = []
    for one in (function, functionalize(function), rl.compile(functionalize(function))):
        x = rl.arange(6.0).reshape(2, 3).requires_grad_()
        one(x).sum().backward()
        gradients.append(x.grad.tolist())
    assert gradients == gradients[:1] * 3


class Doubled(rl.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


def unseen(x):
    y = x * 2
    with rl.no_grad():
        y[0] = 0
    return y


def bytes_of(x):
    y = x * 2
    y.view(rl.int32).bitwise_and_(-256)
    return y


@pytest.mark.parametrize(
    "function", [Doubled.apply, unseen, bytes_of], ids=["own derivative", "unseen write", "write to bytes"]
)
def test_what_would_have_other_gradients_is_refused(function):
    with pytest.raises(RushlightError) as caught:
        functionalize(function)(rl.ones(2, requires_grad=True))
    assert caught.value.code == "A006"
    with rl.no_grad():
        same(functionalize(function)(rl.ones(2)), function(rl.ones(2)))


def test_a_branch_on_a_value_is_refused_and_leaves_nothing():
    x = rl.ones(2)
    with pytest.raises(RushlightError) as caught:
        functionalize(lambda x: x.add_(1) if bool(x.sum() > 0) else x)(x)
    assert caught.value.code == "C002"
    assert x.add_(1).tolist() == [2.0, 2.0]


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        (lambda view: view.masked_fill_(rl.tensor([True, False]), -3), [1.0, 0.0, 1.0]),
        (lambda view: view.index_fill_(0, rl.tensor([0]), -3), [1.0, 0.0, 1.0]),
        (lambda view: view.float_power_(2), [1.0, 4.0, 6.0]),
    ],
)
def test_writes_in_parts_to_views_by_strides_keep_gradients_of_the_elements_left(write, expected):
    """The view leaves the view that it is taken of; the write reads what the base shows there: PyTorch's gradients."""
    x = rl.tensor([1.0, 2.0, 3.0], dtype=rl.float64).requires_grad_()
    whole = x * 1
    write(whole[:1].as_strided((2,), (1,), 1))
    whole.sum().backward()
    assert x.grad.tolist() == expected
