"""What one trace serves, what makes another, and why."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.support import events
from rushlight.support.errors import RushlightError, RushlightWarning, forget_warnings
from tensors import same


@pytest.fixture(autouse=True)
def _fresh():
    rl.compiler.reset()
    events.reset()


def graphs() -> int:
    return rl.compiler.graph_count()


def ones(*shape: int) -> Any:
    return rl.ones(*shape)


# Sizes.


@pytest.mark.parametrize("first", [0, 1, 2, 7])
def test_all_sizes_share_one_graph(first: int):
    def f(x: Any, w: Any) -> Any:
        return rl.relu(x @ w).sum(0) + x.shape[0]

    compiled = rl.compile(f)
    rng = np.random.default_rng(0)
    w = rl.tensor(rng.standard_normal((5, 3)).astype(np.float32))
    for rows in (first, 0, 1, 2, 3, 7, 64, 1000):
        x = rl.tensor(rng.standard_normal((rows, 5)).astype(np.float32))
        assert same(compiled(x, w), f(x, w)), rows
    assert graphs() == 1


def test_broadcasting_relations_are_guarded_and_sizes_are_not():
    compiled = rl.compile(lambda x, y: x + y)
    for a, b in (((4, 3), (4, 3)), ((5, 2), (5, 2)), ((1, 1), (1, 1))):
        assert compiled(ones(*a), ones(*b)).shape == a
    assert graphs() == 1
    assert compiled(ones(4, 3), ones(1, 3)).shape == (4, 3)
    assert graphs() == 2
    assert compiled(ones(6, 5), ones(1, 5)).shape == (6, 5)
    assert graphs() == 2


def test_python_control_flow_on_a_size_guards_its_answer():
    compiled = rl.compile(lambda x: x * 2 if x.shape[0] > 3 else x * 3)
    assert compiled(ones(4)).sum().item() == 8 and compiled(ones(100)).sum().item() == 200
    assert graphs() == 1
    assert compiled(ones(2)).sum().item() == 6 and compiled(ones(3)).sum().item() == 9
    assert graphs() == 2


def test_sizes_are_constants_where_asked():
    compiled = rl.compile(lambda x: x + 1, dynamic=False)
    for size in (3, 4, 3, 4):
        compiled(ones(size))
    assert graphs() == 2


def test_layouts_and_dtypes_make_graphs_of_their_own():
    compiled = rl.compile(lambda x: x + 1)
    x = rl.tensor(np.arange(12, dtype=np.float32).reshape(3, 4))
    assert same(compiled(x), x + 1) and same(compiled(x.mT), x.mT + 1)
    assert graphs() == 2
    assert compiled(x.to(rl.float64)).dtype is rl.float64
    assert graphs() == 3
    assert same(compiled(x[1:]), x[1:] + 1)
    assert graphs() == 3


# Values.


def test_bools_strings_and_none_are_constants():
    def f(x: Any, flag: bool, mode: str, extra: Any) -> Any:
        y = x + 1 if flag else x - 1
        return y * 2 if mode == "double" else y if extra is None else y + extra

    compiled = rl.compile(f)
    x = ones(3)
    calls = ((True, "double", None), (False, "double", None), (True, "plain", None), (True, "plain", x))
    for flag, mode, extra in calls:
        for _ in range(2):
            assert same(compiled(x, flag, mode, extra), f(x, flag, mode, extra))
    assert graphs() == 4


def test_numbers_that_only_feed_arithmetic_are_run_time_inputs():
    compiled = rl.compile(lambda x, a, n: x * a + n)
    for a, n in ((0.5, 1), (2.0, 7), (-1.25, 0)):
        assert compiled(ones(2), a, n).tolist() == [a + n] * 2
    assert graphs() == 1
    compiled(ones(2), 1, 2)  # an int where a float was
    assert graphs() == 2


def test_a_number_that_decides_is_guarded():
    compiled = rl.compile(lambda x, a: x * a if a > 1 else x - a)
    assert compiled(ones(1), 3.0).item() == 3 and compiled(ones(1), 0.5).item() == 0.5
    assert graphs() == 2
    assert compiled(ones(1), 3.0).item() == 3
    assert graphs() == 2


def test_a_learning_rate_that_changes_makes_no_new_graph():
    w = nn.Parameter(rl.ones(4))
    optimizer = rl.optim.SGD([w], lr=0.1)

    def step(x: Any) -> None:
        optimizer.zero_grad()
        (w * x).sum().backward()
        optimizer.step()

    compiled = rl.compile(step)
    for lr in (0.1, 0.2, 0.4):
        optimizer.param_groups[0]["lr"] = lr
        compiled(ones(4))
    assert graphs() == 1
    assert np.allclose(w.detach().numpy(), 1 - 0.1 - 0.2 - 0.4)


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = 2.0
        self.flip = False
        self.register_buffer("shift", rl.ones(1))

    def forward(self, x: Any) -> Any:
        return (-x if self.flip else x) * self.scale + self.shift


def test_a_number_of_a_module_that_changes_becomes_a_run_time_input():
    module = Scaled()
    compiled = rl.compile(module)
    found = []
    for scale in (2.0, 3.0, 4.0, 5.0):
        module.scale = scale
        found.append(compiled(ones(1)).item())
    assert found == [3.0, 4.0, 5.0, 6.0]
    assert graphs() == 2


def test_a_bool_of_a_module_makes_a_graph_for_each_value():
    module = Scaled()
    compiled = rl.compile(module)
    found = []
    for flip in (False, True, False, True):
        module.flip = flip
        found.append(compiled(ones(1)).item())
    assert found == [3.0, -1.0, 3.0, -1.0]
    assert graphs() == 2


def test_training_and_evaluation_are_two_graphs():
    module = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))
    compiled = rl.compile(module)
    for _ in range(2):
        module.train()
        compiled(ones(2, 3))
        module.eval()
        assert same(compiled(ones(2, 3)), module(ones(2, 3)))
    assert graphs() == 2


def test_a_buffer_that_is_replaced_is_seen():
    module = Scaled()
    compiled = rl.compile(module)
    assert compiled(ones(1)).item() == 3.0
    module.shift = rl.tensor([10.0])
    assert compiled(ones(1)).item() == 12.0
    module.shift.fill_(20.0)
    assert compiled(ones(1)).item() == 22.0
    assert graphs() == 2


# What a function reaches.

GLOBAL = rl.tensor([1.0, 2.0])
FACTOR = 3.0


def test_tensors_in_closures_and_globals_are_inputs():
    local = rl.tensor([10.0, 20.0])

    def f(x: Any) -> Any:
        return x + GLOBAL + local

    compiled = rl.compile(f)
    assert compiled(rl.zeros(2)).tolist() == [11.0, 22.0]
    local.fill_(0.0)
    assert compiled(rl.zeros(2)).tolist() == [1.0, 2.0]
    assert graphs() == 1


def test_a_global_that_is_bound_anew_is_seen():
    global FACTOR
    compiled = rl.compile(lambda x: x * FACTOR)
    try:
        assert compiled(ones(1)).item() == 3.0
        FACTOR = 4.0
        assert compiled(ones(1)).item() == 4.0
    finally:
        FACTOR = 3.0


def test_a_closure_that_is_bound_anew_is_seen():
    factor = 2.0
    weight = rl.tensor([1.0])

    def f(x: Any) -> Any:
        return x * factor * weight

    compiled = rl.compile(f)
    assert compiled(ones(1)).item() == 2.0
    factor = 5.0
    assert compiled(ones(1)).item() == 5.0
    weight = rl.tensor([2.0])
    assert compiled(ones(1)).item() == 10.0


def test_defaults_and_keywords():
    def f(x: Any, *, scale: Any = 2.0, shift: Any = None) -> Any:
        return x * scale if shift is None else x * scale + shift

    compiled = rl.compile(f)
    assert compiled(ones(1)).item() == 2.0
    assert compiled(ones(1), scale=3.0).item() == 3.0
    assert compiled(ones(1), scale=4.0).item() == 4.0
    assert compiled(ones(1), shift=ones(1), scale=1.0).item() == 2.0
    assert compiled(x=ones(1)).item() == 2.0
    assert graphs() == 2  # a number that each call chooses, and a shift


def test_nested_containers_go_in_and_out():
    def f(batch: dict[str, Any]) -> Any:
        a, (b, c) = batch["pair"]
        return {"sum": a + b, "all": [a * 2, (b, None)], "n": c, "shape": a.shape[0]}

    compiled = rl.compile(f)
    for size in (2, 3):
        out = compiled({"pair": (ones(size), [ones(size), "text"])})
        assert out["sum"].tolist() == [2.0] * size and out["all"][0].tolist() == [2.0] * size
        assert out["all"][1][1] is None and out["n"] == "text" and out["shape"] == size
        assert list(out) == ["sum", "all", "n", "shape"] and isinstance(out["all"][1], tuple)
    assert graphs() == 1
    compiled({"pair": (ones(2), [ones(2), "other"])})
    assert graphs() == 2


# What comes back.


def test_inputs_come_back_as_the_same_objects():
    x, y = ones(2), ones(2)
    out = rl.compile(lambda x, y: (y, x, x + 1))(x, y)
    assert out[0] is y and out[1] is x


def test_views_of_inputs_share_their_memory():
    x = rl.tensor([[1.0, 2.0], [3.0, 4.0]])
    view = rl.compile(lambda x: x.mT[1])(x)
    assert view.tolist() == [2.0, 4.0]
    x.fill_(0.0)
    assert view.tolist() == [0.0, 0.0]


def test_nothing_comes_back_from_a_function_that_returns_nothing():
    x = ones(2)

    def f(x: Any) -> None:
        x.add_(1)

    assert rl.compile(f)(x) is None and x.tolist() == [2.0, 2.0]


def test_containers_come_back_as_they_are():
    step = rl.compile(lambda x: (x.size(), OrderedDict(a=x + 1), {}, [], (), x.max(0), {"b": [x.shape[0] * 2, None]}))
    for rows in (2, 4):
        size, ordered, *empty, largest, named = step(ones(rows, 3))
        assert type(size) is rl.Size and size == (rows, 3)
        assert type(ordered) is OrderedDict and ordered["a"].shape == (rows, 3)
        assert empty == [{}, [], ()]
        assert largest.values.tolist() == [1, 1, 1] and largest.indices.tolist() == [0, 0, 0]
        assert named == {"b": [2 * rows, None]}
    assert graphs() == 1


def test_two_results_that_are_one_value_stay_one():
    def f(x: Any) -> Any:
        y = x + 1
        return y, y

    one, two = rl.compile(f)(ones(2))
    assert one is two


# Gradients.


def test_requires_grad_makes_a_graph_of_its_own():
    compiled = rl.compile(lambda x: (x * x).sum())
    assert compiled(ones(2)).requires_grad is False
    x = rl.tensor([1.0, 2.0], requires_grad=True)
    compiled(x).backward()
    assert x.grad.tolist() == [2.0, 4.0]
    assert graphs() == 2
    with rl.no_grad():
        assert compiled(x).requires_grad is False
    assert graphs() == 3


def test_gradients_that_are_there_are_added_to():
    w = nn.Parameter(rl.ones(2))

    def f(x: Any) -> None:
        (w * x).sum().backward()

    compiled = rl.compile(f)
    compiled(ones(2))
    assert w.grad.tolist() == [1.0, 1.0]
    compiled(ones(2))
    assert w.grad.tolist() == [2.0, 2.0]
    compiled(ones(2))
    assert w.grad.tolist() == [3.0, 3.0]
    w.grad = None
    compiled(ones(2))
    assert w.grad.tolist() == [1.0, 1.0]
    assert graphs() == 2


def test_a_gradient_through_sizes_that_no_saved_value_shows():
    def f(x: Any) -> Any:
        return rl.exp(x.reshape(-1))

    x0 = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    x, y = (rl.tensor(x0, requires_grad=True) for _ in range(2))
    rl.compile(f)(x).sum().backward()
    f(y).sum().backward()
    assert same(x.grad, y.grad)


def test_a_saved_result_that_is_written_to_is_an_error():
    x = rl.tensor([1.0, 2.0], requires_grad=True)
    y = rl.compile(rl.exp)(x)
    y.mul_(2.0) if False else y.detach().mul_(2.0)
    with pytest.raises(RushlightError) as caught:
        y.sum().backward()
    assert caught.value.code == "G003"


# Threads, and what cannot be traced.


def test_two_threads_call_one_function():
    compiled = rl.compile(lambda x, w: rl.relu(x @ w))
    rng = np.random.default_rng(0)
    w = rl.tensor(rng.standard_normal((8, 8)).astype(np.float32))
    inputs = [rl.tensor(rng.standard_normal((rows, 8)).astype(np.float32)) for rows in (3, 5, 9, 17)]
    expected = [rl.relu(x @ w) for x in inputs]
    failures: list[Any] = []
    start = threading.Barrier(4)

    def work() -> None:
        try:
            start.wait(10)
            for _ in range(20):
                for x, wanted in zip(inputs, expected, strict=True):
                    assert same(compiled(x, w), wanted)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and graphs() == 1


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x if x.sum() > 0 else -x,
        lambda x: x + float(x.sum()),
        lambda x: [0, 1][int(x[0])],
        lambda x: x.numpy(),
    ],
    ids=["bool", "float", "int", "numpy"],
)
def test_asking_for_a_value_while_tracing_is_an_error_with_a_hint(function: Any):
    with pytest.raises(RushlightError) as caught:
        rl.compile(function, fullgraph=True)(ones(3))
    assert caught.value.code in ("C002", "C011") and caught.value.hint
    assert "test_guards.py" in str(caught.value)
    # Nothing is left behind: the next function compiles.
    assert rl.compile(lambda x: x + 1, fullgraph=True)(ones(1)).item() == 2.0


def test_a_failing_function_leaves_state_as_it_was():
    module = Scaled()

    def f(x: Any) -> Any:
        module.scale = 7.0
        module.shift.add_(1.0)
        raise ValueError("halfway")

    with pytest.raises(ValueError, match="halfway"):
        rl.compile(f, fullgraph=True)(ones(1))
    assert module.scale == 2.0 and module.shift.item() == 1.0


# Inputs that share memory.


def test_one_tensor_given_twice_is_one():
    def f(x: Any, y: Any) -> Any:
        x.add_(1)
        return x * y

    compiled = rl.compile(f)
    x, y = ones(2), ones(2)
    assert compiled(x, y).tolist() == [2.0, 2.0]
    assert compiled(x, x).tolist() == [9.0, 9.0] and x.tolist() == [3.0, 3.0]
    assert compiled(x, y).tolist() == [4.0, 4.0]
    assert graphs() == 2


def test_a_tensor_that_the_function_reaches_may_be_an_argument_too():
    weight = rl.ones(2)

    def f(x: Any) -> Any:
        weight.mul_(2)
        return x + weight

    compiled = rl.compile(f)
    assert compiled(weight).tolist() == [4.0, 4.0]
    assert compiled(ones(2)).tolist() == [5.0, 5.0]
    assert graphs() == 2


def test_a_size_may_be_an_index_into_a_tensor_of_the_program():
    rows = rl.arange(24.0).reshape(12, 2)
    compiled = rl.compile(lambda x: (rows[x.shape[0]], rows[x.shape[0] : x.shape[0] + 1]), fullgraph=True)
    for size in (3, 7):
        one, part = compiled(rl.zeros(size, 4))
        assert one.tolist() == rows[size].tolist()
        assert part.tolist() == [rows[size].tolist()]
    assert rl.compiler.graph_count() == 1


def test_views_that_do_not_overlap_may_be_written_to():
    compiled = rl.compile(lambda x, y: x.add_(y))
    base = rl.tensor([0.0, 1.0, 2.0, 3.0])
    compiled(base[:2], base[2:])
    assert base.tolist() == [2.0, 4.0, 2.0, 3.0]


def test_a_written_tensor_that_overlaps_another_is_an_error_not_a_wrong_result():
    compiled = rl.compile(lambda x, y: x.add_(y), fullgraph=True)
    compiled(ones(3), ones(3))
    base = rl.tensor([0.0, 1.0, 2.0, 3.0])
    with pytest.raises(RushlightError) as caught:
        compiled(base[1:], base[:3])
    assert caught.value.code == "C012" and base.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_views_that_overlap_may_be_read():
    compiled = rl.compile(lambda x, y: x + y)
    base = rl.tensor([0.0, 1.0, 2.0, 3.0])
    assert compiled(base[1:], base[:3]).tolist() == [1.0, 3.0, 5.0]


def test_the_gradient_of_an_argument_is_accumulated():
    def f(x: Any) -> None:
        (x * x).sum().backward()

    compiled = rl.compile(f)
    x = rl.tensor([1.0, 2.0], requires_grad=True)
    compiled(x)
    assert x.grad.tolist() == [2.0, 4.0]
    compiled(x)
    assert x.grad.tolist() == [4.0, 8.0]
    x.grad = None
    compiled(x)
    assert x.grad.tolist() == [2.0, 4.0]
    assert graphs() == 2


class Trainer:
    def __init__(self) -> None:
        self.weights = (nn.Parameter(rl.ones(2)), nn.Parameter(rl.ones(2)))
        self.optimizer = rl.optim.SGD(self.weights, lr=0.5)
        self.steps = 0
        self.loss: Any = None

    def step(self, x: Any) -> Any:
        self.optimizer.zero_grad()
        self.loss = (self.weights[0] * x + self.weights[1]).sum()
        self.loss.backward()
        self.optimizer.step()
        self.steps += 1


def test_the_attributes_that_a_method_names_are_state():
    trainer = Trainer()
    compiled = rl.compile(trainer.step)
    for _ in range(4):
        compiled(ones(2))
    assert trainer.steps == 4
    assert trainer.weights[0].tolist() == [-1.0, -1.0] and trainer.loss.item() == -2.0
    assert graphs() <= 3  # the count of steps is a constant at first


def test_a_function_that_is_compiled_again_and_again_gives_one_warning():
    forget_warnings()
    compiled = rl.compile(lambda x, mode: x + len(mode))
    with pytest.warns(RushlightWarning, match="has 8 graphs, and makes more") as given:  # noqa: PT031
        for number in range(12):
            compiled(ones(1), str(number))
    assert len(given) == 1 and "mode is not" in str(given[0].message)


def test_dims_and_other_ints_of_operators_may_be_arguments_which_their_value_then_guards():
    def dims(x, n):
        results = (x.sum(n), rl.softmax(x, n), x.transpose(n, 0), rl.cat([x, x], n), x.permute(n, 1 - n), x.flip(n))
        return (
            *results,
            x.topk(2, n).values,
            x.max(n).values,
            x.unsqueeze(n),
            x.var(n, False),
            x.repeat_interleave(2, n),
        )

    def numbers(x, n, slope):
        pooled = nn.functional.max_pool2d(x, 3, n, n, dilation=n)
        results = nn.functional.conv2d(x, rl.ones(1, 1, 1, 1), padding=n), nn.functional.hardtanh(x, -slope, slope)
        return pooled, *results, nn.functional.leaky_relu(x, slope), x.norm(slope), x.quantile(slope / 2)

    x = rl.arange(6.0).reshape(2, 3)
    compiled, further = rl.compile(dims), rl.compile(numbers)
    for n in (0, 1, 0):
        assert all(map(same, compiled(x, n), dims(x, n)))
    assert graphs() == 2
    image = rl.arange(36.0).reshape(1, 1, 6, 6) - 9
    for arguments in ((1, 0.5), (1, 1.5)):
        assert all(map(same, further(image, *arguments), numbers(image, *arguments)))


def test_a_diagonal_may_be_any_size():
    compiled = rl.compile(lambda x, n: (x.tril(n), rl.tril_indices(3, 3, n)))
    for n in (0, 1, 2, -1):
        assert all(map(same, compiled(rl.ones(3, 4), n), (rl.ones(3, 4).tril(n), rl.tril_indices(3, 3, n))))
    assert graphs() == 1
