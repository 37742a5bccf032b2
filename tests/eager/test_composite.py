"""Functions that are short programs of operators, against values recorded from PyTorch 2.13."""

from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl
from rushlight.support.errors import RushlightError

NAN = float("nan")

CASES: list[tuple[Callable[[Any], Any], Any]] = [
    (lambda m: m.diag(m.tensor([1.0, 2.0]), 1), [[0.0, 1.0, 0.0], [0.0, 0.0, 2.0], [0.0, 0.0, 0.0]]),
    (lambda m: m.diag(m.tensor([[1, 2, 3], [4, 5, 6]]), -1), [4]),
    (
        lambda m: m.diag_embed(m.tensor([[1, 2], [3, 4]]), 1, 0, 2),
        [[[0, 1, 0], [0, 3, 0]], [[0, 0, 2], [0, 0, 4]], [[0, 0, 0], [0, 0, 0]]],
    ),
    (
        lambda m: m.diagflat(m.tensor([[1, 2], [3, 4]]), -1),
        [[0, 0, 0, 0, 0], [1, 0, 0, 0, 0], [0, 2, 0, 0, 0], [0, 0, 3, 0, 0], [0, 0, 0, 4, 0]],
    ),
    (lambda m: m.trace(m.tensor([[1, 2], [3, 4]], dtype=m.int32)), 5),
    (
        lambda m: m.zeros(7, 3).fill_diagonal_(2, wrap=True),
        [
            [2.0, 0.0, 0.0],
            [0.0, 2.0, 0.0],
            [0.0, 0.0, 2.0],
            [0.0, 0.0, 0.0],
            [2.0, 0.0, 0.0],
            [0.0, 2.0, 0.0],
            [0.0, 0.0, 2.0],
        ],
    ),
    (lambda m: m.fliplr(m.tensor([[1, 2], [3, 4]])), [[2, 1], [4, 3]]),
    (lambda m: m.flipud(m.tensor([[1, 2], [3, 4]])), [[3, 4], [1, 2]]),
    (lambda m: m.rot90(m.tensor([[1, 2, 3], [4, 5, 6]]), 1), [[3, 6], [2, 5], [1, 4]]),
    (lambda m: m.rot90(m.tensor([[1, 2, 3], [4, 5, 6]]), -1, (1, 0)), [[3, 6], [2, 5], [1, 4]]),
    (lambda m: m.rot90(m.tensor([[1, 2, 3], [4, 5, 6]]), 2), [[6, 5, 4], [3, 2, 1]]),
    (lambda m: m.ones(2, 3, 4).sum_to_size(3, 1), [[8.0], [8.0], [8.0]]),
    (lambda m: m.tensor(True).sum_to_size(()), 1),
    (lambda m: m.tensor_split(m.arange(7), 3), [[0, 1, 2], [3, 4], [5, 6]]),
    (lambda m: m.tensor_split(m.arange(7), (2, 5, 9)), [[0, 1], [2, 3, 4], [5, 6], []]),
    (lambda m: m.tensor_split(m.arange(6).reshape(2, 3), m.tensor([1]), -1), [[[0], [3]], [[1, 2], [4, 5]]]),
    (lambda m: m.hsplit(m.arange(6).reshape(2, 3), 3), [[[0], [3]], [[1], [4]], [[2], [5]]]),
    (lambda m: m.vsplit(m.arange(6).reshape(2, 3), [1]), [[[0, 1, 2]], [[3, 4, 5]]]),
    (lambda m: m.dsplit(m.arange(6).reshape(1, 2, 3), [2]), [[[[0, 1], [3, 4]]], [[[2], [5]]]]),
    (lambda m: m.split_with_sizes(m.arange(6), [1, 2, 3]), [[0], [1, 2], [3, 4, 5]]),
    (lambda m: m.unsafe_split(m.arange(5), 2), [[0, 1], [2, 3], [4]]),
    (lambda m: m.unsafe_split_with_sizes(m.arange(5), [4, 1]), [[0, 1, 2, 3], [4]]),
    (lambda m: m.unsafe_chunk(m.arange(5), 2), [[0, 1, 2], [3, 4]]),
    (lambda m: m.atleast_3d(m.tensor([1, 2]), m.tensor([[3], [4]])), [[[[1], [2]]], [[[3]], [[4]]]]),
    (lambda m: m.column_stack((m.tensor([1, 2]), m.tensor([[3, 4], [5, 6]]))), [[1, 3, 4], [2, 5, 6]]),
    (lambda m: m.dstack((m.tensor([1, 2]), m.tensor([3, 4]))), [[[1, 3], [2, 4]]]),
    (
        lambda m: m.block_diag(m.tensor([[1, 2]]), m.tensor(3.5), m.tensor([4])),
        [[1.0, 2.0, 0.0, 0.0], [0.0, 0.0, 3.5, 0.0], [0.0, 0.0, 0.0, 4.0]],
    ),
    (
        lambda m: m.cartesian_prod(m.tensor([1, 2]), m.tensor([3, 4, 5])),
        [[1, 3], [1, 4], [1, 5], [2, 3], [2, 4], [2, 5]],
    ),
    (lambda m: m.combinations(m.tensor([1, 2, 3]), 2, True), [[1, 1], [1, 2], [1, 3], [2, 2], [2, 3], [3, 3]]),
    (lambda m: m.take(m.tensor([[1, 2], [3, 4]]), m.tensor([[-1], [1]])), [[4], [2]]),
    (
        lambda m: m.tensor([[1, 2], [3, 4]]).put(m.tensor([1, -1]), m.tensor([8, 9]), accumulate=True),
        [[1, 10], [3, 13]],
    ),
    (
        lambda m: m.index_copy(m.zeros(3, 2), 0, m.tensor([2, 0]), m.tensor([[1.0, 2.0], [3.0, 4.0]])),
        [[3.0, 4.0], [0.0, 0.0], [1.0, 2.0]],
    ),
    (lambda m: m.index_fill(m.zeros(2, 3), 1, m.tensor([2, 0, 2]), m.tensor(7.0)), [[7.0, 0.0, 7.0], [7.0, 0.0, 7.0]]),
    (lambda m: m.index_fill(m.zeros(2, 3, dtype=m.int64), 0, m.tensor(1), 2.9), [[0, 0, 0], [2, 2, 2]]),
    (
        lambda m: m.index_reduce(m.ones(3) * 2, 0, m.tensor([0, 0, 2]), m.tensor([3.0, 4.0, 5.0]), "prod"),
        [24.0, 2.0, 10.0],
    ),
    (
        lambda m: m.index_reduce(
            m.ones(3) * 2, 0, m.tensor([0, 0, 2]), m.tensor([3.0, 4.0, 5.0]), "mean", include_self=False
        ),
        [3.5, 2.0, 5.0],
    ),
    (
        lambda m: m.masked_scatter(
            m.zeros(2, 2), m.tensor([[True, False], [True, True]]), m.tensor([1.0, 2.0, 3.0, 4.0])
        ),
        [[1.0, 0.0], [2.0, 3.0]],
    ),
    (lambda m: m.nonzero_static(m.tensor([[0, 3], [1, 0]]), size=3), [[0, 1], [1, 0], [-1, -1]]),
    (lambda m: m.nonzero_static(m.tensor([1, 1, 0, 1]), size=2, fill_value=9), [[0], [1]]),
    (lambda m: m.unravel_index(m.tensor([5, 0]), (2, 3)), [[1, 0], [2, 0]]),
    (lambda m: m.isin(m.tensor([[1, 2], [3, 4]]), m.tensor([2, 4, 9]), invert=True), [[True, False], [True, False]]),
    (lambda m: m.isin(2.0, m.tensor([1, 2])), True),
    (lambda m: m.nansum(m.tensor([[1.0, NAN], [NAN, NAN]]), 1), [1.0, 0.0]),
    (lambda m: m.nanmean(m.tensor([[1.0, NAN, 3.0], [NAN, NAN, NAN]]), 1), [2.0, NAN]),
    (lambda m: m.nanmedian(m.tensor([[1.0, NAN, 3.0], [NAN, NAN, NAN]]), -1), [[1.0, NAN], [0, 0]]),
    (lambda m: m.nanmedian(m.tensor([4.0, NAN, 1.0, 3.0])), 3.0),
    (lambda m: m.aminmax(m.tensor([[3, 1], [2, 5]]), dim=1, keepdim=True), [[[1], [2]], [[3], [5]]]),
    (lambda m: m.std_mean(m.tensor([[1.0, 3.0], [2.0, 2.0]]), 1), [[1.4142135381698608, 0.0], [2.0, 2.0]]),
    (lambda m: m.renorm(m.tensor([[3.0, 4.0], [0.5, 0.0]]), 2, 0, 2.5), [[1.5, 2.0], [0.5, 0.0]]),
    (lambda m: m.histc(m.tensor([1.0, 2.0, 1.0, 4.0]), 3), [2.0, 1.0, 1.0]),
    (lambda m: m.histc(m.tensor([1.0, 2.0, 1.0, 4.0]), bins=4, min=0, max=3), [0.0, 2.0, 1.0, 0.0]),
    (lambda m: m.diff(m.tensor([1, 4, 9, 16]), 2), [2, 2]),
    (lambda m: m.diff(m.tensor([1, 4]), prepend=m.tensor([0]), append=m.tensor([9])), [1, 3, 5]),
    (lambda m: m.diff(m.tensor([True, False, False])), [True, False]),
    (lambda m: m.trapezoid(m.tensor([1.0, 5.0, 10.0]), m.tensor([1.0, 3.0, 6.0])), 28.5),
    (lambda m: m.trapz(m.tensor([[1, 5], [10, 2]]), dx=2, dim=0), [11.0, 7.0]),
    (lambda m: m.cumulative_trapezoid(m.tensor([1.0, 5.0, 10.0])), [3.0, 10.5]),
    (lambda m: m.vander(m.tensor([1, 2, 3]), 3), [[1, 1, 1], [4, 2, 1], [9, 3, 1]]),
    (lambda m: m.vander(m.tensor([2.0, 3.0]), increasing=True), [[1.0, 2.0], [1.0, 3.0]]),
    (lambda m: m.linalg.vander(m.tensor(2), N=3), [[1, 2, 4]]),
    (
        lambda m: m.tensordot(m.arange(3.0).view(1, 1, 3), m.arange(8.0).view(2, 2, 2), dims=([0, 1], [1, 2])),
        [[0.0, 0.0], [6.0, 22.0], [12.0, 44.0]],
    ),
    (lambda m: m.nn.functional.feature_alpha_dropout(m.ones(2), 1.0, True), [0.0, 0.0]),
    (lambda m: m.nn.functional.feature_alpha_dropout(m.ones(2), 0.5, False), [1.0, 1.0]),
    (lambda m: m.nn.functional.one_hot(m.tensor([[1], [2]])), [[[0, 1, 0]], [[0, 0, 1]]]),
    (lambda m: m.tensor([1.0, 2.0]).__rdiv__(4), [4.0, 2.0]),
    (lambda m: m.tensor([1.0]).cdouble(), [1 + 0j]),
    (lambda m: m.tensor([1]).cfloat().dtype is m.complex64, True),
    (lambda m: m.cov(m.tensor([[1.0, 2.0, 4.0, 5.0]])), 3.3333332538604736),
    (lambda m: m.corrcoef(m.tensor([[1.0, 2.0, 4.0]])), 1.0),
    (lambda m: m.cov(m.tensor([[1, 2, 4]]), aweights=m.tensor([0.5, 1.0, 0.25], dtype=m.bfloat16)).tolist(), 1.5),
    (lambda m: m.cov(m.ones(2, 3, dtype=m.bfloat16), aweights=m.ones(3)).dtype is m.float32, True),
    (
        lambda m: m.unique(m.tensor([[3, 3], [1, 2], [3, 3]]), return_inverse=True, return_counts=True, dim=0),
        [[[1, 2], [3, 3]], [1, 0, 1], [1, 2]],
    ),
    (lambda m: m.tensor([[1, 2]]).scatter(1, m.tensor([[1, 1]]), m.tensor([[5, 6]]), reduce="add"), [[1, 13]]),
    (lambda m: m.tensor([[1, 2]]).scatter_(1, m.tensor([[0]]), 7, reduce="multiply"), [[7, 2]]),
    (lambda m: m.tensor([[1, 2]]).scatter_(1, m.tensor([[0]]), value=7), [[7, 2]]),
    (lambda m: m.index_add(m.tensor(2), 0, m.tensor([0]), m.tensor(3), alpha=2), 8),
    (lambda m: m.tensor([[1, 2]]).permute(dims=(1, 0)).flip(dims=(0,)).repeat(repeats=(1, 2)), [[2, 2], [1, 1]]),
    (lambda m: m.tensor([1, 2]).reshape(shape=(2, 1)).expand(size=(2, 2)), [[1, 1], [2, 2]]),
    (lambda m: m.zeros(2).uniform_(**{"from": 3, "to": 3}), [3.0, 3.0]),
    (lambda m: m.frexp(m.tensor([8.0, -0.3, 0.0, 1e-45])), [[0.5, -0.6000000238418579, 0.0, 0.5], [4, -1, 0, -148]]),
    (lambda m: m.gcd(m.tensor([-12, 0]), m.tensor([8, 0])), [4, 0]),
    (lambda m: m.lcm(m.tensor([4, 0]), m.tensor([6, 5])), [12, 0]),
    (lambda m: m.heaviside(m.tensor([-1.0, 0.0, 2.0]), m.tensor(0.5)), [0.0, 0.5, 1.0]),
    (lambda m: m.nextafter(m.tensor([1.0, 0.0]), m.tensor([2.0, -1.0])), [1.0000001192092896, -1.401298464324817e-45]),
    (lambda m: m.mode(m.tensor([[3, 1, 1, 3, 2]]), 1), [[1], [2]]),
    (lambda m: m.angle(m.tensor([-1, 0])), [3.1415927410125732, 0.0]),
    (lambda m: m.ldexp(m.tensor([3]), m.tensor([2])), [12.0]),
    (lambda m: m.rad2deg(m.tensor([0])), [0.0]),
    (lambda m: m.polar(m.tensor([2.0]), m.tensor([0.0])), [2 + 0j]),
    (lambda m: m.isreal(m.tensor([1j, 1])), [False, True]),
    (lambda m: m.permute_copy(m.tensor([[1, 2], [3, 4]]), (1, 0)), [[1, 3], [2, 4]]),
    (lambda m: m.view_copy(m.tensor([[1, 2], [3, 4]]), (4,)), [1, 2, 3, 4]),
    (lambda m: m.unfold_copy(m.arange(5), 0, 3, 2), [[0, 1, 2], [2, 3, 4]]),
    (
        lambda m: m.unique_consecutive(m.tensor([1, 1, 2, 2, 1]), return_inverse=True, return_counts=True),
        [[1, 2, 1], [0, 0, 1, 1, 2], [2, 2, 1]],
    ),
    (
        lambda m: m.unique_consecutive(m.tensor([[1, 1, 2], [3, 3, 3]]), dim=1, return_counts=True),
        [[[1, 2], [3, 3]], [2, 1]],
    ),
    (lambda m: m.unique_consecutive(m.empty(0), True, True), [[], [], []]),
    (lambda m: m.is_same_size(m.ones(2), m.ones(3)), False),
    (lambda m: m.is_nonzero(m.tensor([[0.5]])), True),
    (
        lambda m: [m.tensor(0, dtype=dtype).is_signed() for dtype in (m.uint8, m.bool, m.float16, m.complex64)],
        [False, False, True, True],
    ),
    (lambda m: m.ones(2).get_device(), -1),
    (lambda m: m.abs_(m.tensor([-1, 2])), [1, 2]),
    (lambda m: m.tensor([1.5, 2.5]).greater_(2), [0.0, 1.0]),
    (lambda m: m.tensor([1, 2]).cumsum_(0), [1, 3]),
    (lambda m: m.ones(2, 2).addmm_(m.ones(2, 3), m.ones(3, 2), beta=2), [[5.0, 5.0], [5.0, 5.0]]),
    (lambda m: m.ones(1, 2, 2).baddbmm_(m.ones(1, 2, 3), m.ones(1, 3, 2), alpha=2), [[[7.0, 7.0], [7.0, 7.0]]]),
    (lambda m: m.fix(m.tensor([-1.5, 1.5])), [-1.0, 1.0]),
]


@pytest.mark.parametrize(("call", "wanted"), CASES)
def test_value_is_that_of_pytorch(call: Callable[[Any], Any], wanted: Any) -> None:
    assert repr(_plain(call(rl))) == repr(wanted)


def _plain(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    return value.tolist() if isinstance(value, rl.Tensor) else value


def test_out_is_written_and_returned() -> None:
    out = rl.empty(2, dtype=rl.float64)
    assert rl.take(rl.tensor([1.0, 2.0, 3.0]), rl.tensor([2, 0]), out=out) is out
    assert out.tolist() == [3.0, 1.0]
    low, high = rl.empty(()), rl.empty(())
    assert rl.aminmax(rl.tensor([2.0, 1.0]), out=(low, high)).max is high
    assert (low.item(), high.item()) == (1.0, 2.0)


@pytest.mark.parametrize(
    ("code", "call"),
    [
        ("S009", lambda: rl.take(rl.ones(3), rl.tensor([0]), out=rl.empty(2))),
        ("D003", lambda: rl.take(rl.ones(3), rl.tensor([0]), out=rl.empty(1, dtype=rl.int64))),
        ("A004", lambda: rl.aminmax(rl.ones(3), out=rl.empty(()))),
        ("S014", lambda: rl.index_copy(rl.ones(3), 0, rl.tensor([0]), rl.ones(2))),
        ("I004", lambda: rl.take(rl.ones(3), rl.tensor([0.5]))),
        ("I006", lambda: rl.rot90(rl.ones(2, 2), 1, (0, 0))),
        ("I001", lambda: rl.nn.functional.one_hot(rl.tensor([1, -1]))),
        ("I001", lambda: rl.nn.functional.one_hot(rl.tensor([1, 2]), 2)),
        ("A002", lambda: rl.nn.functional.one_hot(rl.tensor([0]), 0)),
        ("A002", lambda: rl.cov(rl.ones(2, 3), fweights=rl.tensor([1, -1, 2]))),
        ("A002", lambda: rl.cov(rl.ones(2, 3), aweights=rl.tensor([1, -0.5, 2]))),
        ("A001", lambda: rl.narrow(rl.ones(2), 0, rl.tensor(True), 1)),
        ("S002", lambda: rl.linalg.vander(rl.tensor(2.0))),
        ("A003", lambda: rl.trapezoid(rl.ones(3), rl.ones(3), dx=1)),
    ],
)
def test_error_has_its_code(code: str, call: Callable[[], object]) -> None:
    with pytest.raises(RushlightError) as caught:
        call()
    assert caught.value.code == code


def test_in_place_form_keeps_what_the_gradient_needs() -> None:
    x = rl.tensor([2.0, 3.0], requires_grad=True)
    y = (x * 1).index_reduce_(0, rl.tensor([0]), rl.tensor([5.0]), "prod")
    y.sum().backward()
    assert y.tolist() == [10.0, 3.0]
    assert x.grad.tolist() == [5.0, 1.0]


def test_fill_of_a_place_named_twice_counts_once() -> None:
    value = rl.tensor(7.0, requires_grad=True)
    rl.index_fill(rl.zeros(3), 0, rl.tensor([1, 1]), value).sum().backward()
    assert value.grad.item() == 1.0


@pytest.mark.parametrize(
    ("fill", "below", "share"),
    [
        (lambda x: x.exponential_(2.0), 0.5, 0.6321),
        (lambda x: x.cauchy_(1.0, 2.0), 3.0, 0.75),
        (lambda x: x.log_normal_(0.5, 0.25), 1.6487, 0.5),
        (lambda x: x.geometric_(0.25), 2.5, 0.4375),
    ],
)
def test_random_numbers_are_distributed_as_they_should(fill: Callable[[Any], Any], below: float, share: float) -> None:
    rl.manual_seed(7)
    drawn = fill(rl.empty(20000, dtype=rl.float64))
    assert abs((drawn < below).to(rl.float64).mean().item() - share) < 0.015


def test_random_numbers_need_a_dtype_and_parameters_that_fit() -> None:
    with pytest.raises(RushlightError) as caught:
        rl.ones(2, dtype=rl.int64).exponential_()
    assert caught.value.code == "D001"
    for call in (rl.Tensor.exponential_, rl.Tensor.geometric_):
        with pytest.raises(RushlightError) as caught:
            call(rl.ones(2), -1.0)
        assert caught.value.code == "A002"


def test_unary_plus_is_positive():
    x = rl.ones(2, requires_grad=True)
    assert +x is x and (+x.detach()).equal(x)
    with pytest.raises(RushlightError, match="not supported for bool"):
        _ = +rl.tensor(True)


COPIES: dict[str, Callable[[Any], Any]] = {
    "repeat": lambda y: y.repeat(2, 1),
    "repeat once": lambda y: y.repeat(1, 1),
    "repeat in front": lambda y: y.t().repeat(2, 1, 1),
    "tile": lambda y: rl.tile(y, (2, 1)),
}


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("grad", [False, True], ids=["constant", "recorded"])
@pytest.mark.parametrize("name", COPIES)
def test_a_composite_owns_its_result_also_where_that_could_be_a_view(name: str, grad: bool, compiled: bool) -> None:
    """Of dims of size 1, or repeated once: a write to the result is none to the operand, nor to other rows."""

    def write(x: Any) -> tuple[Any, Any]:
        y = x * 1
        result = COPIES[name](y)
        result[0] = 0
        return y, result

    y, result = (rl.compile(write) if compiled else write)(rl.ones(1, 3, requires_grad=grad))
    assert y.tolist() == [[1.0, 1.0, 1.0]]
    assert result.sum().item() == result.numel() - result[0].numel()
    assert result.is_contiguous()


def test_repeated_and_one_hot_tensors_are_laid_out_row_by_row() -> None:
    weight = rl.rand(5, 5, 4, requires_grad=True)
    for table in (weight, weight.detach()):
        assert table.permute(2, 0, 1).unsqueeze(0).repeat(2, 1, 1, 1).view(8, 5, 5).shape == (8, 5, 5)
    assert rl.nn.functional.one_hot(rl.tensor([[0, 1], [2, 3]]).t()).view(-1, 4).argmax(1).tolist() == [0, 2, 1, 3]
