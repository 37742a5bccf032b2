"""Arithmetic of the numbers among the arguments: errors, classes and special values are those of each call."""

import math
from collections.abc import Callable
from enum import IntEnum
from fractions import Fraction
from typing import Any

import pytest

import rushlight as rl


def quotient(x, n):
    try:
        y = 1 / n
    except ZeroDivisionError:
        y = 5.0
    return x * y


def returned_quotient(x, n):
    try:
        return x + 1, 7 // n
    except ZeroDivisionError as error:
        return x, str(error)


def random_quotient(x, n):
    try:
        return x * rl.rand(2) * (1 / n)
    except ZeroDivisionError:
        return x * rl.rand(2)


def power_of_two(x, n):
    y = 2**n
    return x * y, y


def root(x, n):
    try:
        return x * (n**0.5)
    except TypeError as error:
        return str(error)


def overflowing(x, n):
    try:
        return x * 1e200**n
    except OverflowError:
        return x


def shifted(x, n):
    try:
        return x * 2, 1 << n, n << 70
    except ValueError as error:
        return x, str(error)


def bits(x, n):
    return x * (n & 6), n | 8, n ^ 1, ~n, +n, divmod(n, 3), divmod(7, n or 1)


def text(x, n):
    return x, "%s" % [n], f"{(n,)}"


def copied_sign(x, n):
    return x * math.copysign(1, n)


def is_itself(x, n):
    return x * 2 if n == n else x * 3


def chain(x, n):
    m = n
    for _ in range(60):
        m = (m * m + n) % 1000003
    for _ in range(300):
        m = m + 1
    return x * m if m > 500 else x, m, [n + k for k in range(300)]


INTS = [(2, 0, -3, 3, 0), (0, 2, -3, 0, 70)]
PROGRAMS = {
    quotient: INTS,
    chain: INTS,
    returned_quotient: INTS,
    random_quotient: INTS,
    power_of_two: INTS,
    overflowing: INTS,
    shifted: INTS,
    bits: [*INTS, (2**100, 1)],
    text: INTS,
    root: [(2.0, -4.0, 9.0), (-4.0, 2.0)],
    copied_sign: [(0.0, -0.0, 0.0, 1.0)],
    is_itself: [(math.nan, 1.0, math.nan), (1.0, math.nan)],
}


def shown(run, x, value):
    """What a call gives, or the class of its error, as text."""
    rl.manual_seed(0)
    try:
        return repr(run(x, value))
    except Exception as error:
        return type(error).__name__


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "parts"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_each_call_has_the_numbers_of_python(program, whole):
    for values in PROGRAMS[program]:
        compiled = rl.compile(program, fullgraph=whole)
        for value in values:
            x = rl.tensor([1.0, 2.0])
            assert shown(compiled, x, value) == shown(program, x, value), value


def test_quotients_share_a_graph_until_one_is_undefined():
    rl.compiler.reset()
    compiled = rl.compile(quotient, fullgraph=True)
    for value in (2, 3, -5):
        compiled(rl.ones(2), value)
    assert rl.compiler.graph_count() == 1
    compiled(rl.ones(2), 0)
    compiled(rl.ones(2), 4)
    assert rl.compiler.graph_count() == 2


class Bound:
    """Compares with a number that is an argument."""

    def __init__(self, limit: float) -> None:
        self.limit = limit

    def __eq__(self, other: object) -> Any:
        return "equal", type(self.limit).__name__, self.limit == other

    def __lt__(self, other: object) -> Any:
        return "less", type(self.limit).__name__

    def __ge__(self, other: object) -> Any:
        return NotImplemented

    __hash__ = None


class Own(float):
    """A float whose methods come first."""

    def __eq__(self, other: object) -> Any:
        return "own", type(other).__name__

    def __gt__(self, other: object) -> Any:
        return NotImplemented

    def __radd__(self, other: float) -> Any:
        return "own sum", type(other).__name__

    __hash__ = None


MEETINGS: dict[str, Callable] = {
    "reflected equality": lambda v: v == Bound(v),
    "reflected inequality": lambda v: v != Bound(v),
    "reflected order": lambda v: v > Bound(v),
    "no order": lambda v: v <= Bound(v),
    "a subclass first": lambda v: v == Own(1.0),
    "a subclass that does not know": lambda v: v < Own(1.0),
    "a subclass's sum": lambda v: v + Own(1.0),
    "a fraction": lambda v: v == Fraction(1, 2),
    "infinity": lambda v: v * float("inf"),
    "minus infinity": lambda v: v * -float("inf"),
    "a NaN": lambda v: str(v - float("nan")),
    "a negative base": lambda v: (-2) ** int(4 * v),
    "a negative zero": lambda v: str(v * -0.0),
    "a member of an enumeration": lambda v: v * Level.HIGH,
    "with a tensor": lambda v: (rl.ones(2) * (v * float("inf"))).tolist(),
}


class Level(IntEnum):
    HIGH = 2


@pytest.mark.parametrize("fullgraph", [True, False])
@pytest.mark.parametrize("name", MEETINGS)
def test_numbers_meet_what_eager_ones_meet(name: str, fullgraph: bool):
    def outcome(function: Callable, value: float) -> object:
        try:
            result = function(value)
        except TypeError as error:
            return str(error)
        return type(result).__name__, result

    compiled = rl.compile(MEETINGS[name], backend="eager", fullgraph=fullgraph)
    for value in (0.5, 0.25, 0.75):
        assert outcome(compiled, value) == outcome(MEETINGS[name], value)


@pytest.mark.parametrize("fullgraph", [False, True])
def test_one_more_graph_opens_all_numbers_that_differ(fullgraph):
    class Schedule(rl.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second, self.third = 1, 2.0, 3

        def forward(self, x):
            return x * self.first + x * self.second - self.third

    module = Schedule()
    compiled = rl.compile(module, fullgraph=fullgraph)
    before = rl.compiler.graph_count()
    for _ in range(5):
        assert compiled(rl.ones(2)).tolist() == module(rl.ones(2)).tolist()
        module.first, module.second, module.third = module.first + 1, module.second + 0.5, module.third + 2
    assert rl.compiler.graph_count() - before == (2 if fullgraph else 1)


SEQUENCES: dict[str, Callable[[Any, Any], rl.Tensor]] = {
    "numbers": lambda n, m: rl.tensor([n, m]),
    "nested, with constants": lambda n, m: rl.tensor([[n, 1], [True, m]]),
    "of a dtype": lambda n, m: rl.tensor((n, m), dtype=rl.float16),
    "of few bits": lambda n, m: rl.tensor([n, m], dtype=rl.int8),
    "one of few bits": lambda n, m: rl.tensor(n, dtype=rl.int8) + m,
    "of unequal length": lambda n, m: rl.tensor([[n, m], [n]]),
    "that contain themselves": lambda n, m: rl.tensor(endless(n)),
}


def endless(number: Any) -> list[Any]:
    """A list that is an element of its own."""
    made: list[Any] = [number]
    made.append(made)
    return made


@pytest.mark.parametrize("fullgraph", [False, True])
@pytest.mark.parametrize("name", SEQUENCES)
def test_sequences_of_numbers_are_tensors_of_the_graph(name: str, fullgraph: bool):
    function, compiled = SEQUENCES[name], rl.compile(SEQUENCES[name], fullgraph=fullgraph)

    def outcome(call: Callable[[Any, Any], rl.Tensor], *numbers: float) -> object:
        try:
            result = call(*numbers)
        except rl.RushlightError as problem:
            return type(problem).__bases__[-1]
        return result.dtype, str(result.tolist())

    rl.compiler.reset()
    for numbers in ((1, 2), (3, 4), (300, -7), (1.5, 2.5), (math.nan, 1.0), (1e300, 2.0), (70, 0.5)):
        assert outcome(compiled, *numbers) == outcome(function, *numbers), numbers
    assert name.endswith("few bits") or rl.compiler.graph_count() <= 5


OPEN: dict[str, Callable[[rl.Tensor], rl.Tensor]] = {
    "sizes": lambda x: rl.tensor([x.shape[0], x.shape[1] * 2]),
    "a shape": lambda x: rl.tensor(x.shape),
    "sizes beside floats": lambda x: rl.tensor([[x.shape[0], 2.5], [True, x.shape[1] // 2]]),
    "sizes of a dtype": lambda x: rl.as_tensor(x.shape, dtype=rl.float32),
    "sizes of few bits": lambda x: rl.tensor([x.shape[0], -1], dtype=rl.int16),
    "sizes of the class": lambda x: rl.LongTensor([x.shape[0], 2]),
    "sizes beside a tensor's": lambda x: x.new_tensor([x.shape[0], 1]),
    "comparisons": lambda x: rl.tensor([x.shape[0] > 2, False, x.shape[1] == 3]),
    "roots": lambda x: rl.tensor([x.shape[0] ** 0.5, 1]),
    "tensors": lambda x: rl.tensor([x.sum(), x.mean(), 1]),
    "tensors of several dtypes": lambda x: rl.tensor([x.half().sum(), x.long()[0, 0]]),
    "values": lambda x: rl.tensor([x.sum().item(), 2]),
    "truncated": lambda x: rl.tensor([x.shape[0], 2.75], dtype=rl.int32),
    "complex": lambda x: rl.tensor([x.shape[0], 2j]),
}


@pytest.mark.parametrize("name", OPEN)
def test_sequences_of_sizes_and_tensors_are_tensors_of_one_graph(name: str):
    function, compiled = OPEN[name], rl.compile(OPEN[name], fullgraph=True)
    for shape in ((4, 3), (5, 3), (7, 6)):
        x = rl.arange(float(shape[0] * shape[1])).reshape(shape)
        result, expected = compiled(x), function(x)
        assert (result.dtype, result.tolist()) == (expected.dtype, expected.tolist())
        assert not result.requires_grad
    graphs = {"comparisons": 2, "roots": 3, "truncated": 3, "complex": 3}
    assert rl.compiler.graph_count() == graphs.get(name, 1)


def test_a_size_that_a_dtype_of_few_bits_refuses_is_the_error_of_eager_code():
    compiled = rl.compile(lambda x: rl.tensor([x.shape[0], 2], dtype=rl.uint8), fullgraph=True)
    assert compiled(rl.ones(255)).tolist() == [255, 2]
    with pytest.raises(rl.RushlightError, match="does not fit uint8"):
        compiled(rl.ones(256))


def put_at(n: Any, m: Any) -> rl.Tensor:
    """Writes to two rows of a new tensor."""
    made = rl.zeros(3, 3)
    made[[n, m]] = rl.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    return made


INDICES: dict[str, Callable[[Any, Any], rl.Tensor]] = {
    "a list": lambda n, m: rl.arange(9).view(3, 3)[[n, m]],
    "a list behind a slice": lambda n, m: rl.arange(9).view(3, 3)[:, [n, 0]],
    "a tuple within a tuple": lambda n, m: rl.arange(9).view(3, 3)[..., (m, n, 1)],
    "a write": put_at,
    "dims of vmap": lambda n, m: rl.vmap(rl.sum, n)(rl.arange(9).view(3, 3)),
    "dims of vmap for each": lambda n, m: rl.vmap(rl.mul, (n, m), n)(rl.ones(2, 2), rl.arange(4).view(2, 2)),
    "the argument of grad": lambda n, m: rl.func.grad(lambda a, b: (a * b * b).sum(), n)(rl.ones(2), rl.arange(2.0)),
    "arguments of jacrev": lambda n, m: rl.func.jacrev(rl.mul, (n, m))(rl.ones(2), rl.arange(2.0))[0],
}


@pytest.mark.parametrize("fullgraph", [False, True])
@pytest.mark.parametrize("name", INDICES)
def test_numbers_are_indices_and_dims(name: str, fullgraph: bool):
    function, compiled = INDICES[name], rl.compile(INDICES[name], backend="eager", fullgraph=fullgraph)
    for numbers in ((0, 1), (1, 0), (0, 1)):
        assert compiled(*numbers).tolist() == function(*numbers).tolist(), numbers


WEIGHT = rl.arange(4.0).requires_grad_()
TAKEN: dict[str, Callable[[Any], Any]] = {
    "a size of the older kind": lambda n: rl.Tensor(n).fill_(1),
    "two of them": lambda n: rl.LongTensor(n, 3).fill_(1),
    "data of the older kind": lambda n: rl.Tensor([n, 1]),
    "the order of a norm": lambda n: rl.linalg.vector_norm(rl.arange(4.0), ord=n),
    "the order of a norm that is recorded": lambda n: WEIGHT.norm(n).detach(),
    "a distribution": lambda n: rl.distributions.Normal(n, n).log_prob(rl.ones(2)),
    "a value among buckets": lambda n: rl.bucketize(n, rl.arange(4.0)),
}
REFUSED: dict[str, Callable[[Any], Any]] = {
    "a pointwise operator": rl.sin,
    "a reduction": rl.sum,
    "a form": rl.zeros_like,
    "an index": lambda n: rl.arange(4.0).gather(0, n),
    "another index": lambda n: rl.arange(4.0).index_select(0, n),
    "another tensor's dtype": lambda n: rl.ones(2).to(n),
    "type_as": lambda n: rl.ones(2).type_as(n),
    "an embedding": lambda n: rl.nn.functional.embedding(n, rl.ones(4, 2)),
    "a float of the older kind": lambda n: rl.Tensor(n + 0.5),
    "an infinite order": lambda n: rl.linalg.vector_norm(rl.ones(2), ord=[n]),
}


@pytest.mark.parametrize("fullgraph", [False, True])
@pytest.mark.parametrize("name", TAKEN)
def test_numbers_are_taken_where_eager_code_takes_them(name: str, fullgraph: bool):
    function, compiled = TAKEN[name], rl.compile(TAKEN[name], backend="eager", fullgraph=fullgraph)
    for number in (2, 3, 1):
        found, expected = compiled(number), function(number)
        assert found.dtype is expected.dtype and found.tolist() == expected.tolist(), number


@pytest.mark.parametrize("fullgraph", [False, True])
@pytest.mark.parametrize("name", REFUSED)
def test_a_number_is_no_tensor(name: str, fullgraph: bool):
    function, compiled = REFUSED[name], rl.compile(REFUSED[name], backend="eager", fullgraph=fullgraph)
    with pytest.raises(rl.RushlightError) as expected:
        function(2)
    with pytest.raises(rl.RushlightError) as found:
        compiled(2)
    assert found.value.code == expected.value.code


@pytest.mark.parametrize("fullgraph", [False, True])
def test_the_outcome_of_a_comparison_of_floats_is_guarded(fullgraph: bool):
    """Not the float: a clock, a loss or a learning rate is another one at each call."""

    def function(x: rl.Tensor, now: float, begun: float) -> rl.Tensor:
        if now - begun > 0.5:
            x = x + 1
        return x * now if now <= begun else x

    compiled = rl.compile(function, fullgraph=fullgraph)
    x, before = rl.ones(2), rl.compiler.graph_count()
    for now, begun in [
        (1.5, 0.25),
        (2.5, 0.5),
        (0.75, 0.5),
        (0.5, 0.25),
        (0.25, 0.5),
        (float("nan"), 1.0),
        (7.25, 1.5),
    ]:
        assert str(compiled(x, now, begun).tolist()) == str(function(x, now, begun).tolist())
    assert rl.compiler.graph_count() - before == (3 if fullgraph else 2)  # where nothing is computed there is none


def test_many_elements_are_read_by_python():
    def function(x: rl.Tensor) -> tuple[list[int], rl.Tensor]:
        y = x * 2
        return y.tolist(), y.sum()

    compiled = rl.compile(function)
    for count in (8, 5000, 8, 6000):
        found, total = compiled(rl.arange(count))
        assert found == [2 * number for number in range(count)]
        assert total.item() == sum(found)
    reasons = str(rl.compiler.explain(function)(rl.arange(5000)))
    assert "the elements of a long tensor" in reasons
