"""Sizes that values tell, and calls that only the host can run, inside compiled functions."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.capture import explain_entries, graph_count
from rushlight.ops.record import Fact, define, undefine
from rushlight.support.errors import RushlightError
from tensors import same


def masked(x: Any) -> Any:
    kept = x[x > 0]
    return kept, (kept * 2).sum(), kept.shape[0]


def placed(x: Any) -> Any:
    rows = rl.nonzero(x.abs() > 0.5)
    return rows, x[rows[:, 0]] * 2


def selected(x: Any) -> Any:
    return rl.masked_select(x, x < 1) + 1, rl.argwhere(x < 0).shape[0]


def told_apart(x: Any) -> Any:
    values, inverse, counts = rl.unique((x * 2).int(), return_inverse=True, return_counts=True)
    return values, inverse, counts, values[inverse] - (x * 2).int()


def counted(x: Any) -> Any:
    numbers = (x.abs() * 3).long().reshape(-1)
    return rl.bincount(numbers), rl.bincount(numbers, x.reshape(-1), minlength=4)


def repeated(x: Any) -> Any:
    return x.repeat_interleave((x[:, 0].abs() * 2).long(), 0) + 1


def ordered(x: Any) -> Any:
    values, places = rl.sort(x, 0, descending=True)
    return values * 2, places, x.argsort(1), (x * 2).topk(2, 1).values


def asked(x: Any) -> Any:
    number = (x > 0).sum().item()
    return rl.zeros(number, 2) + number, number + 1, x.sum().item() * x


def cut(x: Any) -> Any:
    first = (x[:, 0] > 0).sum().item()
    one, other = x.split([first, x.shape[0] - first])
    return one * 2, other.sum(0), rl.cat([other, one])


PROGRAMS = [masked, placed, selected, told_apart, counted, repeated, ordered, asked, cut]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_one_graph_serves_all_values(program: Any):
    compiled = rl.compile(program)
    for seed, rows in enumerate((5, 3, 1, 0, 8, 64)):
        x = rl.tensor(np.random.default_rng(seed).standard_normal((rows, 4)).astype(np.float32))
        assert same(compiled(x), program(x))
    assert graph_count() == 1


def test_conditions_that_are_returned_are_bools():
    """What compares sizes, or asks a tensor of bool, is a bool of each call and no symbol of the trace."""

    def program(x: Any, flag: Any) -> Any:
        return flag.item(), [x.shape[0] > 3], {"square": x.shape[0] == x.shape[1]}, x + 1

    compiled = rl.compile(program, dynamic=True, fullgraph=True)
    for rows, columns, flag in ((2, 3, True), (5, 5, False), (4, 2, True), (3, 3, True)):
        first, [large], shape, _ = compiled(rl.ones(rows, columns), rl.tensor(flag))
        assert (first, large, shape["square"]) == (flag, rows > 3, rows == columns)
        assert type(first) is type(large) is type(shape["square"]) is bool


def zeroed(x: Any, mask: Any) -> Any:
    x = x + 0
    x[mask] = 0.0
    return x


@pytest.mark.parametrize("program", [lambda x, mask: x[mask] * 2, lambda x, mask: x.T[:, mask], zeroed])
def test_a_mask_may_be_an_input_of_its_own(program: Any):
    compiled = rl.compile(program)
    for rows in (5, 3, 1, 0, 8):
        x = rl.tensor(np.random.default_rng(rows).standard_normal((rows, 2)).astype(np.float32))
        mask = rl.arange(rows) % 3 == 0
        assert same(compiled(x, mask), program(x, mask))
    with pytest.raises(RushlightError) as caught:
        compiled(rl.ones(4, 3), rl.ones(5) > 0)
    assert caught.value.code == "I005"


def test_a_size_that_equals_an_expression_in_others_is_found_at_the_call():
    def halves(x: Any, half: Any) -> Any:
        count = (x > 0).sum().item() if x.shape[0] == 2 * half.shape[0] else 0
        return x * 2 + rl.ones(count).sum(), x.reshape(2, half.shape[0]) * 3

    compiled = rl.compile(halves)
    for half in (2, 1, 0, 7):
        x = rl.tensor(np.random.default_rng(half).standard_normal(2 * half).astype(np.float32))
        assert same(compiled(x, rl.ones(half)), halves(x, rl.ones(half)))
    assert graph_count() == 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "reference"])
def test_other_backends_run_them_too(backend: str):
    compiled = rl.compile(cut, backend=backend)
    x = rl.tensor(np.random.default_rng(1).standard_normal((6, 4)).astype(np.float32))
    found, wanted = compiled(x), cut(x)
    if backend == "reference":
        assert all(np.allclose(a.numpy(), b.numpy(), atol=1e-6) for a, b in zip(found, wanted, strict=True))
    else:
        assert same(found, wanted)


def test_gradients_flow_through_what_is_selected():
    def loss(x: Any, w: Any) -> Any:
        y = x * w
        kept = y[y > 0]
        values, _ = rl.sort(kept * kept)
        return (values / 2).sum() * kept.shape[0]

    compiled = rl.compile(loss)
    for seed in range(3):
        data = np.random.default_rng(seed).standard_normal((6, 4)).astype(np.float32)
        gradients: list[Any] = []
        for function in (compiled, loss):
            w = rl.ones(4, requires_grad=True)
            function(rl.tensor(data), w).backward()
            gradients.append(w.grad)
        assert same(*gradients)
    assert graph_count() == 1


def test_a_broken_promise_is_an_error_with_the_users_line():
    def halves(x: Any, sizes: Any) -> Any:
        a, b = sizes.tolist()
        rl.check(a + b == x.shape[0], "the parts make up the whole")
        one, other = x.split([a, b])
        return one.sum(0) + other.sum(0)

    compiled = rl.compile(halves)
    x = rl.ones(5, 2)
    assert same(compiled(x, rl.tensor([2, 3])), rl.full((2,), 5.0))
    with pytest.raises(RushlightError, match="the parts make up the whole does not hold") as caught:
        compiled(x, rl.tensor([3, 3]))
    assert caught.value.code == "R002"
    assert "test_data_dependent.py" in str(caught.value) and "halves" in str(caught.value)


def test_a_negative_size_is_an_error():
    compiled = rl.compile(lambda n: rl.zeros(n.item()), fullgraph=True)
    assert compiled(rl.tensor(0)).shape == (0,)
    with pytest.raises(RushlightError) as caught:
        compiled(rl.tensor(-1))
    assert caught.value.code == "R002"


def test_nothing_is_written_before_all_promises_are_checked():
    state = rl.zeros(3)

    def update(n: Any) -> Any:
        state.add_(1)
        rl.check(n.item() < 5)
        return state.sum() + rl.zeros(n.item()).sum()

    compiled = rl.compile(update, fullgraph=True)
    assert compiled(rl.tensor(2)).item() == 3.0
    with pytest.raises(RushlightError):
        compiled(rl.tensor(7))
    assert state.tolist() == [1.0, 1.0, 1.0]


def test_a_branch_on_a_value_names_where_it_came_from():
    def function(x: Any) -> Any:
        count = (x > 0).sum().item()
        return x if count > 3 else -x

    with pytest.raises(rl.DataDependentError, match="u0 >= 4") as caught:
        rl.compile(function, fullgraph=True)(rl.ones(3))
    assert "u0: item() of sum(), test_data_dependent.py:" in str(caught.value) and "rl.cond" in str(caught.value)


def test_a_promise_decides_a_branch():
    def function(x: Any) -> Any:
        count = (x > 0).sum().item()
        rl.check(count > 3)
        return x if count > 2 else -x

    assert same(rl.compile(function)(rl.ones(5)), rl.ones(5))


def test_operators_of_the_host_are_steps_between_native_calls(request: pytest.FixtureRequest):
    ranked = define("ranked(Tensor input) -> Tensor", "The order of the elements.", facts=Fact.HOST)
    request.addfinalizer(lambda: undefine("ranked"))
    ranked.meta(lambda input: input)
    ranked.kernel("cpu")(lambda input: np.argsort(input).astype(input.dtype))
    compiled = rl.compile(lambda x: ranked(x * 2) + 1)
    assert compiled(rl.tensor([3.0, 1.0, 2.0])).tolist() == [2.0, 3.0, 1.0]
    assert len(explain_entries(compiled)[0].executables) == 2


def test_reads_of_one_wave_are_one_segment():
    """However many values are read, there is one native call before and one after."""

    def function(x: Any) -> Any:
        total = x.sum()
        for count in [(x > level).sum().item() for level in range(6)]:
            total = total + rl.ones(count).sum()
        return total

    compiled = rl.compile(function)
    x = rl.tensor([0.5, 3.5, 9.0, -1.0])
    assert same(compiled(x), function(x))
    assert len(explain_entries(compiled)[0].executables) == 2


def test_python_asks_whether_chosen_rows_and_others_are_any_and_the_others_say_so():
    def joined(x, y):
        both = rl.cat([x[x > 0], y])
        return both * 2 if both.numel() == 0 else both + 1

    compiled = rl.compile(joined, fullgraph=True)
    for first, second in ((4, 3), (2, 5), (0, 1), (3, 0), (0, 0)):
        x, y = rl.randn(first), rl.randn(second)
        if second:
            assert rl.equal(compiled(x, y), joined(x, y))
        else:
            with pytest.raises(rl.DataDependentError, match="known only when the program runs"):
                compiled(x, y)


def matched(value: object) -> str:
    match value, 3:
        case True, _:
            return "true"
        case bool(), _:
            return "bool"
        case float(), n if n > 2:
            return "float"
    return "other"


OF_NUMBERS: dict[str, Callable[[Any], object]] = {
    "class": lambda value: (type(value), type(value).__name__, value.__class__),
    "isinstance": lambda value: (
        isinstance(value, float),
        isinstance(value, (int, float)),
        isinstance(value, rl.Tensor),
    ),
    "is_tensor": rl.is_tensor,
    "abstract class": lambda value: isinstance(value, numbers.Real),
    "attributes": lambda value: (hasattr(value, "item"), hasattr(value, "is_integer"), getattr(value, "dtype", None)),
    "parts": lambda value: (value.real, value.imag),
    "identity": lambda value: (value is True, value is not False, value is None, value is value),
    "match": matched,
    "key": lambda value: ({3.0: 1, True: 2}.get(value), value in {3.0, False}, len({value, 3.0, True})),
    "cached": lambda value: {value: 1}[value],
}


@pytest.mark.parametrize("what", OF_NUMBERS)
@pytest.mark.parametrize("compares", [False, True])
def test_numbers_that_item_gives_are_numbers_to_the_program(what: str, compares: bool) -> None:
    ask = OF_NUMBERS[what]

    def program(x: Any) -> tuple[object, ...]:
        value = x.sum().item()
        asked = ask(value > 1 if compares else value)
        return asked, x * 2

    compiled = rl.compile(program, backend="eager")
    for x in (rl.ones(3), rl.zeros(3)):
        assert repr(compiled(x)) == repr(program(x))


@pytest.mark.parametrize("fullgraph", [True, False])
def test_checks_of_values_that_no_argument_decides(fullgraph: bool) -> None:
    def descending(x: Any) -> Any:
        first, second = rl.tensor([4, 2]).tolist()
        rl.check(first <= second, "they ascend")
        return first

    def uncovered(x: Any) -> None:
        rl.segment_reduce(rl.ones(4, 1), "sum", lengths=rl.tensor([2, 1]))

    for function in (descending, uncovered):
        with pytest.raises(rl.RushlightError) as caught:
            rl.compile(function, fullgraph=fullgraph, backend="eager")(rl.ones(2))
        assert caught.value.code in ("R002", "S014")
