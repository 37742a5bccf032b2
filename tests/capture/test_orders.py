"""Gradients of gradients, of any order, through compiled functions: the bits of eager code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.autograd import grad
from rushlight.compiler import compiled_autograd
from rushlight.nn import functional as F
from rushlight.support.errors import RushlightError
from tensors import same

pytestmark = pytest.mark.usefixtures("quick_code")


def drawn(*shape: int, seed: int = 0) -> Any:
    return rl.randn(*shape, generator=rl.Generator().manual_seed(seed), dtype=rl.float64)


def code_of(function: Callable[[], object]) -> str:
    with pytest.raises(RushlightError) as caught:
        function()
    return caught.value.code


def all_same(found: list[Any], wanted: list[Any]) -> bool:
    return len(found) == len(wanted) and all(
        (one is None and other is None) or same(one, other) for one, other in zip(found, wanted, strict=True)
    )


def orders(function: Callable[..., Any], shapes: list[tuple[int, ...]], count: int) -> list[Any]:
    """Gradients of the first orders, each of the sum of sines of the last and of what that was made of."""
    leaves = [drawn(*shape, seed=seed).requires_grad_() for seed, shape in enumerate(shapes)]
    total = function(*leaves).sum()
    found = [total.detach()]
    for _ in range(count):
        gradients = grad(total, leaves, create_graph=True, allow_unused=True)
        found.extend([None if one is None else one.detach() for one in gradients])
        total = sum([(one * (at + 1.5)).sin().sum() for at, one in enumerate(gradients) if one is not None], total)
    return found


def in_place(x: Any, y: Any) -> Any:
    h = x * y
    h[0] = h[1] * 2
    return h.mul_(y).exp()


class Cube(rl.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 3 * g * x * x


def hooked(x: Any, y: Any) -> Any:
    h = x * y
    h.register_hook(lambda gradient: gradient * gradient)
    with rl.no_grad():
        constant = x * 2
    return (h * constant).sin() + y


PROGRAMS: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "product": (lambda x: x.sin() * x.exp(), [(3,)]),
    "layer": (lambda x, w, b: ((x @ w).tanh() + b).exp() * x.sum(), [(3, 4), (4, 5), (5,)]),
    "broadcast": (lambda x, y: x / (y * y + 1) + (x * y).sigmoid(), [(3, 4), (1, 4)]),
    "softmax": (lambda x: F.softmax(x, -1).log().cumsum(0), [(3, 4)]),
    "in place": (in_place, [(3, 4), (3, 4)]),
    "function": (lambda x, y: Cube.apply(x * y).sin(), [(3,), (3,)]),
    "hook": (hooked, [(3, 4), (3, 4)]),
}


@pytest.mark.generated
@pytest.mark.parametrize("fullgraph", [True, False])
@pytest.mark.parametrize("name", PROGRAMS)
def test_three_orders_have_the_bits_of_eager_code(name: str, fullgraph: bool) -> None:
    function, shapes = PROGRAMS[name]
    found = orders(rl.compile(function, fullgraph=fullgraph), shapes, 3)
    assert all_same(found, orders(function, shapes, 3))


def test_parts_of_a_function_are_differentiated_twice() -> None:
    def function(x: Any, y: Any) -> Any:
        h = (x * y).tanh()
        if h.sum() > -1e9:
            h = h * y
        return (h * x).exp()

    compiled = rl.compile(function, fullgraph=False)
    assert all_same(orders(compiled, [(3, 4), (3, 4)], 2), orders(function, [(3, 4), (3, 4)], 2))
    assert rl.compiler.graph_count() == 2


def test_a_function_in_another_is_differentiated_twice() -> None:
    inner = rl.compile(lambda x: (x * x).sin())

    def function(x: Any) -> Any:
        return inner(x) * x.exp()

    assert all_same(orders(rl.compile(function), [(3,)], 3), orders(function, [(3,)], 3))


@pytest.mark.parametrize("shapes", [((1, 4), (1, 4)), ((3, 1), (1, 1)), ((0, 4), (1, 4)), ((7, 4), (7, 4))])
def test_sizes_that_a_derivative_asks_for_may_be_others_in_a_later_call(shapes: Any) -> None:
    def function(x: Any, y: Any) -> Any:
        return (x * y).tanh() * y.exp()

    compiled = rl.compile(function)
    for each in ([(5, 4), (1, 4)], list(shapes), [(6, 4), (1, 4)]):
        assert all_same(orders(compiled, each, 2), orders(function, each, 2))


def test_results_and_their_gradients_meet_in_one_loss() -> None:
    def function(x: Any, y: Any) -> Any:
        return x[1:] * y[1:], x.t(), y.exp()

    def losses(function: Callable[..., Any]) -> list[Any]:
        x, y = drawn(3, 4).requires_grad_(), drawn(3, 4, seed=1).requires_grad_()
        a, b, c = function(x, y)
        first = grad((a * a).sum() + b.sin().sum(), (x, y), create_graph=True)
        second = grad((c * c).sum(), y, create_graph=True)[0]
        ((first[0] * c).sum() + (first[1] * second).sum() + a.sum()).backward(retain_graph=True)
        (first[0].sum() + second.sum()).backward()
        return [x.grad, y.grad]

    assert all_same(losses(rl.compile(function)), losses(function))


@pytest.mark.parametrize("kept", [True, False])
def test_gradients_at_results_may_be_seen_on_the_way(kept: bool) -> None:
    def function(x: Any) -> Any:
        h = x.sin()
        k = (h * x).exp()
        return h, k, (h * k).tanh()

    def seen(function: Callable[..., Any]) -> list[Any]:
        x, log = drawn(3).requires_grad_(), []
        h, k, last = function(x)
        h.register_hook(lambda gradient: log.append(gradient.detach()))
        k.retain_grad()
        total = (last * last).sum() + (k.sum() if kept else 0)
        if not kept:
            del last
        (first,) = grad(total, x, create_graph=True)
        (first.cos().sum() + h.sum()).backward()
        return [*log, first.detach(), k.grad, x.grad]

    found, expected = seen(rl.compile(function)), seen(function)
    assert len(found) == len(expected)
    assert all(rl.allclose(one, other, rtol=1e-13) for one, other in zip(found, expected, strict=True))


def test_hooks_outside_run_as_in_eager_code() -> None:
    def log_of(function: Callable[..., Any]) -> list[Any]:
        log: list[Any] = []
        x, y = drawn(3).requires_grad_(), drawn(3, seed=1).requires_grad_()
        h = x * 2
        h.register_hook(lambda gradient: log.append(("h", gradient.detach().tolist())))
        x.register_hook(lambda gradient: log.append(("x", gradient.detach().tolist())))
        y.register_post_accumulate_grad_hook(lambda leaf: log.append(("y", leaf.grad.detach().tolist())))
        result = function(h, y)
        result.register_hook(lambda gradient: log.append(("result", gradient.detach().tolist())))
        (gradient,) = grad(result.sum(), h, create_graph=True)
        gradient.register_hook(lambda gradient: log.append(("gradient", gradient.detach().tolist())))
        (gradient.cos().sum() + result.sum()).backward()
        return log

    def function(x: Any, y: Any) -> Any:
        return (x * y).exp() * y

    assert log_of(rl.compile(function)) == log_of(function)


def test_what_depends_on_nothing_requires_no_gradient() -> None:
    x = drawn(3).requires_grad_()
    (gradient,) = grad(rl.compile(lambda x: x * 2)(x).sum(), x, create_graph=True)
    assert not gradient.requires_grad


def test_backward_records_where_it_is_asked_to() -> None:
    def second(function: Callable[..., Any]) -> Any:
        x = drawn(3).requires_grad_()
        function(x).sum().backward(create_graph=True)
        first, x.grad = x.grad, None
        first.sum().backward()
        return x.grad

    def cube(x: Any) -> Any:
        return x * x * x

    assert same(second(rl.compile(cube)), second(cube))


def test_what_was_saved_is_looked_at_again() -> None:
    x, y = drawn(3).requires_grad_(), drawn(3, seed=1)
    gradients = [grad(rl.compile(lambda x, y: x * x * y)(x, y).sum(), x, create_graph=True)[0] for _ in range(2)]
    y.mul_(2)
    assert code_of(lambda: gradients[0].sum().backward()) == "G003"


def test_saved_values_go_through_hooks() -> None:
    packed: list[Any] = []

    def pack(value: Any) -> Any:
        packed.append(value)
        return value.clone()

    def function(x: Any) -> Any:
        return (x * x).sin() * x

    def second(function: Callable[..., Any]) -> list[Any]:
        x = drawn(3).requires_grad_()
        with rl.autograd.graph.saved_tensors_hooks(pack, lambda value: value):
            (first,) = grad(function(x).sum(), x, create_graph=True)
        return [first.detach(), *grad(first.sum(), x)]

    expected = second(function)
    packed.clear()
    assert all_same(second(rl.compile(function)), expected)
    assert packed


class Factor(rl.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        ctx.save_for_backward(x, y)
        return x + y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, y = ctx.saved_tensors
        return g * (x * y).sin(), None


def test_an_input_that_only_a_second_derivative_reads_is_looked_for() -> None:
    """The factor of the gradient is kept, and not the two inputs that it is made of."""

    def second(function: Callable[..., Any], lost: bool = False) -> list[Any]:
        x, y = drawn(3).requires_grad_(), drawn(3, seed=1)
        result = function(x, y)
        if lost:
            del y
        (first,) = grad(result.sum(), x, create_graph=True)
        return list(grad(first.sum(), x))

    compiled = rl.compile(Factor.apply)
    assert all_same(second(compiled), second(Factor.apply))
    assert code_of(lambda: second(compiled, lost=True)) == "G015"


class Hidden(rl.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        ctx.save_for_backward(y)
        return x * y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (y,) = ctx.saved_tensors
        return g * y, None


def test_a_gradient_of_what_the_first_one_does_not_reach_is_an_error() -> None:
    x, y = drawn(3).requires_grad_(), drawn(3, seed=1).requires_grad_()
    result = rl.compile(lambda x, y: Hidden.apply(x, y).sin())(x, y)
    assert code_of(lambda: grad(result.sum(), x, create_graph=True)) == "G015"


def test_a_sparse_gradient_has_none() -> None:
    layer = nn.Embedding(5, 2, sparse=True)
    result = rl.compile(layer)(rl.tensor([1, 3]))
    assert code_of(lambda: grad((result * result).sum(), layer.weight, create_graph=True)) == "A006"


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.Linear(4, 12)

    def forward(self, x: Any) -> Any:
        q, k, v = self.parts(x).chunk(3, -1)
        return ((q @ k.mT / 2).softmax(-1) @ v).mean(1)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(4, 4)

    def forward(self, x: Any) -> Any:
        h = rl.zeros(x.shape[0], 4, dtype=x.dtype)
        for step in range(x.shape[1]):
            h = self.cell(x[:, step], h)
        return h


def networks() -> dict[str, tuple[Callable[[], Any], tuple[int, ...]]]:
    """Ten networks with the shapes of what they take."""
    mlp = (nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))
    convolutions = (nn.Conv2d(1, 2, 3), nn.Softplus(), nn.Flatten(), nn.Linear(8, 3))
    return {
        "mlp": (lambda: nn.Sequential(*mlp), (3, 4)),
        "gelu": (lambda: nn.Sequential(nn.Linear(4, 5), nn.GELU(), nn.Linear(5, 3)), (3, 4)),
        "convolutions": (lambda: nn.Sequential(*convolutions), (2, 1, 4, 4)),
        "pooled": (lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.AvgPool2d(2), nn.SiLU(), nn.Flatten()), (2, 1, 6, 6)),
        "layer norm": (lambda: nn.Sequential(nn.Linear(4, 5), nn.LayerNorm(5), nn.Tanh()), (3, 4)),
        "batch norm": (lambda: nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Tanh()), (3, 4)),
        "group norm": (lambda: nn.Sequential(nn.Conv1d(2, 4, 2), nn.GroupNorm(2, 4), nn.ELU()), (2, 2, 5)),
        "attention": (Attention, (2, 3, 4)),
        "recurrent": (Recurrent, (2, 3, 4)),
        "dropout": (lambda: nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, 3)), (3, 4)),
    }


@pytest.mark.generated
@pytest.mark.row("2.4")
@pytest.mark.parametrize("name", networks())
def test_products_of_hessians_and_vectors_have_the_bits_of_eager_code(name: str) -> None:
    make, shape = networks()[name]
    rl.manual_seed(0)
    network = make().double()
    parameters = list(network.parameters())
    vectors = [drawn(*parameter.shape, seed=at) for at, parameter in enumerate(parameters)]

    def product(network: Callable[..., Any]) -> list[Any]:
        rl.manual_seed(1)
        gradients = grad(network(drawn(*shape, seed=9)).square().sum(), parameters, create_graph=True)
        return list(grad(gradients, parameters, vectors, allow_unused=True))

    found, expected = product(rl.compile(network)), product(network)
    assert all_same(found, expected)
    with compiled_autograd.enable():
        assert all_same(product(network), expected)
        assert all_same(product(rl.compile(network)), expected)
    assert any(one is not None and bool((one != 0).any()) for one in found)


@pytest.mark.parametrize("fullgraph", [False, True])
def test_a_gradient_that_has_a_history_keeps_it(fullgraph):
    """Whether it has one is asked of each call, since a graph for a gradient without one would drop it."""
    compiled = rl.compile(lambda x: x.grad * 2, fullgraph=fullgraph)
    for create_graph in (False, True, False, True):
        x = drawn(3).requires_grad_()
        (x**3).sum().backward(create_graph=create_graph)
        if create_graph and fullgraph:
            assert code_of(lambda x=x: compiled(x)) == "C003"  # no graph has what the gradient was computed from
            continue
        doubled = compiled(x)
        assert doubled.requires_grad == create_graph and same(doubled, x.grad * 2)
        if create_graph:
            assert same(*grad(doubled.sum(), x, retain_graph=True), *grad((x.grad * 2).sum(), x))


def test_a_gradient_that_gets_a_history_between_graphs_keeps_it():
    def penalised(x):
        (x**3).sum().backward(create_graph=True)
        print(end="")  # a graph ends
        return x.grad.requires_grad, x.grad.square().sum()

    for _ in range(2):
        x, twin = (drawn(3).requires_grad_() for _ in range(2))
        (required, total), (_, wanted) = rl.compile(penalised)(x), penalised(twin)
        assert required and same(total, wanted)
        assert same(*grad(total, x), *grad(wanted, twin))


def test_gradients_are_added_to_one_with_a_history():
    def steps(x):
        (x**2).sum().backward(create_graph=True)

    x, twin = (drawn(3).requires_grad_() for _ in range(2))
    compiled = rl.compile(steps)
    for _ in range(3):
        compiled(x)
        steps(twin)
        assert x.grad.requires_grad and same(x.grad, twin.grad)
    assert same(*grad(x.grad.sum(), x), *grad(twin.grad.sum(), twin))
