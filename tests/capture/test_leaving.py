"""Tensors that live across the end of a graph are in parts what they are in eager code: leaves, views, hooks."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import rushlight as rl
import rushlight.compat.array_api
from rushlight import nn

GIVEN = rl.ones(3, requires_grad=True)
PLAIN = rl.ones(3)
PROGRAMS: dict[str, Callable[[], Any]] = {}


def program(function: Callable[[], Any]) -> Callable[[], Any]:
    PROGRAMS[function.__name__] = function
    return function


def ends() -> None:
    """Ends a graph."""
    print(end="")


@program
def new_leaf() -> Any:
    x = rl.ones(3, requires_grad=True)
    ends()
    (x * 2).sum().backward()
    return x.grad, x


@program
def result_of_new_leaf() -> Any:
    x = rl.ones(3, requires_grad=True)
    y = x * 2
    ends()
    y.sum().backward()
    return x.grad


@program
def result_of_leaf_that_is_gone() -> Any:
    y = rl.ones(3, requires_grad=True) * 2
    ends()
    y.sum().backward()
    return y


@program
def returned_leaf() -> Any:
    return rl.ones(3, requires_grad=True), rl.tensor([1.0], requires_grad=True)


@program
def returned_result_of_leaf() -> Any:
    return rl.ones(3, requires_grad=True) * 2


@program
def made_a_leaf_in_place() -> Any:
    x, y = rl.ones(3), rl.ones(2)
    x.requires_grad_()
    y.requires_grad = True
    ends()
    (x.sum() * y).sum().backward()
    return x.grad, y.grad


@program
def made_a_leaf_after_the_end_of_a_graph() -> Any:
    x = rl.ones(3)
    ends()
    x.requires_grad_()
    y = (x * 2).sum()
    ends()
    y.backward()
    return x.grad, x


@program
def no_leaf_any_more() -> Any:
    x = rl.ones(3, requires_grad=True)
    ends()
    x.requires_grad_(False)
    y = x * 2
    ends()
    return x, y


@program
def detached_leaf() -> Any:
    w = rl.ones(3, requires_grad=True)
    x = (w * 3).detach().requires_grad_()
    y = x * 2
    ends()
    y.sum().backward()
    return x.grad, w.grad


@program
def detached_leaf_of_given_tensor() -> Any:
    x = GIVEN.detach().requires_grad_()
    y = x * 2
    ends()
    y.sum().backward()
    return x.grad, GIVEN.grad


@program
def new_parameter() -> Any:
    p = nn.Parameter(rl.ones(3))
    y = (p * 2).sum()
    ends()
    y.backward()
    return p.grad, type(p), isinstance(p, nn.Parameter), p


@program
def new_module() -> Any:
    layer: Any = nn.Linear(3, 2)
    y = layer(rl.ones(1, 3)).sum()
    ends()
    y.backward()
    return layer.bias.grad, layer.weight.grad


@program
def leaves_in_a_list() -> Any:
    leaves = [rl.ones(2, requires_grad=True) for _ in range(3)]
    ends()
    rl.stack([(x * 2).sum() for x in leaves]).sum().backward()
    return [x.grad for x in leaves]


@program
def steps_of_an_optimizer() -> Any:
    layer = nn.Linear(3, 2, bias=False)
    optimizer = rl.optim.SGD(layer.parameters(), lr=0.1, momentum=0.5)
    with rl.no_grad():
        layer.weight.fill_(1)
    for _ in range(3):
        optimizer.zero_grad()
        layer(rl.ones(1, 3)).sum().backward()
        optimizer.step()
        ends()
    return layer.weight.detach()


@program
def kept_gradient_of_new_leaf() -> Any:
    w = rl.ones(3, requires_grad=True)
    y = w * 2
    y.retain_grad()
    ends()
    y.sum().backward()
    return y.grad, w.grad, y.retains_grad


@program
def kept_gradient() -> Any:
    y = GIVEN * 2
    y.retain_grad()
    z = y * y
    ends()
    z.sum().backward()
    return y.grad, GIVEN.grad


@program
def gradient_from_before_the_end() -> Any:
    w = rl.ones(3, requires_grad=True)
    (w * 2).sum().backward()
    ends()
    (w * 3).sum().backward()
    return w.grad


@program
def gradient_that_is_set() -> Any:
    w, x = rl.ones(3, requires_grad=True), rl.ones(3)
    w.grad = rl.ones(3)
    x.grad = rl.ones(3)
    ends()
    (w * 3).sum().backward()
    return w.grad, x.grad


@program
def gradient_by_function() -> Any:
    w = rl.ones(3, requires_grad=True)
    y = w * 2
    ends()
    return rl.autograd.grad(y.sum(), w)


@program
def hook_on_new_leaf() -> Any:
    seen: list[int] = []
    w = rl.ones(3, requires_grad=True)
    w.register_hook(lambda gradient: seen.append(1) or gradient * 2)
    y = w * 2
    ends()
    y.sum().backward()
    return w.grad, seen


@program
def hook_on_result() -> Any:
    seen: list[int] = []
    y = GIVEN * 2
    y.register_hook(lambda gradient: seen.append(1) or gradient * 2)
    ends()
    y.sum().backward()
    return GIVEN.grad, seen


@program
def view_and_base() -> Any:
    x = rl.zeros(3)
    y = x[0]
    ends()
    y.add_(1)
    return x, y


@program
def two_views() -> Any:
    x = rl.zeros(3)
    y, z = x[:2], x[1:]
    ends()
    y.add_(1)
    return y, z


@program
def view_of_what_is_written_after() -> Any:
    x = rl.zeros(3)
    y = x[0]
    x.add_(2)
    ends()
    y.add_(1)
    return x, y


@program
def view_with_history() -> Any:
    x = GIVEN * 1
    y = x[:2]
    ends()
    y.mul_(3)
    x.sum().backward()
    return GIVEN.grad, x, y


@program
def view_without_recording() -> Any:
    x = GIVEN * 1
    with rl.no_grad():
        y = x[:2]
    with rl.no_grad():
        z = GIVEN[:2]
    return x.requires_grad, y.requires_grad, z.requires_grad


@program
def detached_and_data() -> Any:
    x = rl.zeros(3)
    y, z = x.detach(), x.data
    ends()
    y.add_(1)
    z.add_(1)
    return x, y, z, x is y, x is z


@program
def view_of_given_tensor() -> Any:
    y, z = PLAIN[0], PLAIN.detach()
    ends()
    y.add_(1)
    z.add_(1)
    result = PLAIN.clone()
    with rl.no_grad():
        PLAIN.fill_(1)
    return result, z is PLAIN


@program
def tensor_of_python_data() -> Any:
    x = rl.tensor([1.0, 2.0])
    x.add_(1)
    return x


@program
def new_memory_each_time() -> Any:
    return rl.tensor([1.0, 2.0]).add_(1), rl.tensor(3)


@program
def closure_over_what_lives_across() -> Any:
    x = rl.ones(3)
    ends()

    def scaled(factor: float) -> Any:
        return x * factor

    return scaled(2.0), (lambda: x + 1)()


@program
def scope_that_ends_later() -> Any:
    with rl.autograd.graph.saved_tensors_hooks(lambda x: x * 2, lambda x: x):
        y = GIVEN * GIVEN
        ends()
        z = y.exp()
    z.sum().backward()
    return GIVEN.grad


@program
def lists_of_values() -> Any:
    x = rl.tensor([1, 2, 3])
    y = rl.tensor([1.0, 2.0, 3.0])
    assert (x.tolist(), 1) == ([1, 2, 3], 1)
    return x.tolist() == [1, 2, 3], [y.sum().item()] == [6.0], y.sum().item() in [1.0, 6.0], max(y.tolist())


@program
def random_numbers_from_a_seed() -> Any:
    rl.manual_seed(3)
    first = rl.rand(2)
    rl.manual_seed(3)
    state = rl.get_rng_state()
    return first, rl.rand(2), state, rl.Generator().manual_seed(4).initial_seed()


@program
def nested_lists_of_values() -> Any:
    x = rl.arange(8).reshape(2, 2, 2)
    return (x * 2).tolist() == (x + x).tolist(), (x * 0.5).tolist() == (x / 2).tolist()


class Logged(rl.autograd.Function):
    """Doubles, and notes when."""

    seen: list[str] = []

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        Logged.seen.append("forward")
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        Logged.seen.append("backward")
        return gradient * 2


@program
def functions_that_are_called_back() -> Any:
    Logged.seen.clear()
    given: Any = GIVEN
    calls: list[Any] = []
    handle = given.register_hook(lambda gradient: calls.append(1))
    Logged.apply(GIVEN).sum().backward()
    handle.remove()
    rl.utils.checkpoint.checkpoint(lambda x: calls.append(2) or x * 2, GIVEN, use_reentrant=False)
    return Logged.seen[:], calls, GIVEN.grad


@program
def scope_of_a_generator_of_ours() -> Any:
    x = rl.tensor([1.0, 2.0], requires_grad=True)
    with rl.autograd.graph.allow_mutation_on_saved_tensors():
        y = x.exp()
        z = y.exp()
        with rl.no_grad():
            y.mul_(2)
        z.sum().backward()
    return x.grad, rl.ones(2) * 2


@program
def strides_of_two_tensors() -> Any:
    x, y = rl.ones(2, 3), rl.ones(2, 3)
    ends()
    return x.stride() == y.stride(), x.stride() == y.mT.stride(), x.stride(0)


@program
def promotion_with_a_number() -> Any:
    number = len([1, 2]) * 1.5
    ends()
    return rl.result_type(rl.ones(1, dtype=rl.int32), number), rl.compat.array_api.result_type(rl.uint8, 3)


@program
def error_of_a_function_of_ours() -> Any:
    try:
        rl.testing.assert_close("a", 1)
    except AssertionError as error:
        return str(error)


def described(value: Any) -> Any:
    """What may differ of a result."""
    if isinstance(value, rl.Tensor):
        return type(value), value.tolist(), value.requires_grad, value.is_leaf, value.dtype
    return [described(part) for part in value] if isinstance(value, (tuple, list)) else value


def outcomes(function: Callable[[], Any]) -> Iterator[Any]:
    """What two calls give; tensors of the second one are written to by nobody."""
    for _ in range(2):
        GIVEN.grad = None
        rl.manual_seed(0)
        result = function()
        yield described(result)
        for tensor in result if isinstance(result, tuple) else (result,):
            if isinstance(tensor, rl.Tensor) and tensor is not _gradient() and tensor.is_contiguous():
                tensor.detach().mul_(5)  # another call has another tensor


def _gradient() -> Any:
    return GIVEN.grad


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_lives_across_the_end_of_a_graph_is_as_in_eager_code(name: str) -> None:
    expected = list(outcomes(PROGRAMS[name]))
    assert list(outcomes(rl.compile(PROGRAMS[name], backend="eager", fullgraph=False))) == expected


def test_one_graph_gives_views_of_what_it_gives() -> None:
    @rl.compile(fullgraph=True)
    def step(x: Any) -> Any:
        y = x * 2
        return y[1:], y, y[1:].view(-1, 2)

    for size in (3, 5):
        x = rl.ones(size, requires_grad=True)
        tail, whole, pairs = step(x)
        assert tail._base is whole and pairs._base is whole
        with rl.no_grad():
            tail.add_(1)
        assert whole.tolist() == [2] + [3] * (size - 1) and pairs.flatten().tolist() == tail.tolist()
        (tail.sum() + whole.sum()).backward()
        assert x.grad.tolist() == [2] + [4] * (size - 1)


def test_one_graph_makes_tensors_of_python_data_anew() -> None:
    step = rl.compile(lambda: rl.tensor([1.0, 2.0]).add_(1), fullgraph=True)
    first, second = step(), step()
    first.zero_()
    assert first is not second and second.tolist() == [2, 3]


def test_one_graph_refuses_to_change_whether_a_parameter_learns() -> None:
    layer = nn.Linear(2, 2)

    @rl.compile(fullgraph=True)
    def freeze() -> None:
        layer.weight.requires_grad_(False)

    with pytest.raises(rl.RushlightError, match="requires_grad: the tensor is an input"):
        freeze()
    assert layer.weight.requires_grad
    rl.compile(lambda: layer.weight.requires_grad_(False), fullgraph=False)()
    assert not layer.weight.requires_grad
