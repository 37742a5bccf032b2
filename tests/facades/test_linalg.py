"""Norms, systems and products of `linalg` give the numbers of PyTorch 2.13, and refuse what it refuses."""

import numpy as np
import pytest

import rushlight as rl
from rushlight import linalg
from rushlight.autograd import gradcheck, gradgradcheck

INFINITY = float("inf")
SQUARE = rl.tensor([[4.0, 1, 0], [1, 3, 1], [0, 1, 2]], dtype=rl.float64)
TALL = rl.tensor([[1.0, 2], [0, 1], [3, -1], [2, 2]], dtype=rl.float64)
RIGHT = rl.tensor([[1.0], [2], [3], [4]], dtype=rl.float64)
VECTOR = rl.tensor([1.0, 2, 3, 4, 5], dtype=rl.float64)


def flat(result):
    return result.flatten().tolist()


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("fro", 4.898979),
        ("nuc", 6.847704),
        (1, 6.0),
        (-1, 6.0),
        (2, 3.950386),
        (-2, 2.897318),
        (INFINITY, 4.0),
        (-INFINITY, 1.0),
    ],
)
def test_matrix_norm_has_every_order(order, expected):
    assert linalg.matrix_norm(TALL, order).item() == pytest.approx(expected, abs=1e-6)
    batched = linalg.norm(TALL.expand(2, 4, 2).movedim(0, 1), order, (0, 2), keepdim=True)
    assert batched.shape == (1, 2, 1)
    assert flat(batched) == pytest.approx([expected] * 2, abs=1e-6)


@pytest.mark.parametrize(("order", "expected"), [(None, 3.732051), ("fro", 5.066228), (1, 4.444444), (-2, 0.267949)])
def test_cond_is_peers(order, expected):
    assert linalg.cond(SQUARE, order).item() == pytest.approx(expected, abs=1e-6)


CASES = {
    "matrix_exp": (
        lambda: rl.matrix_exp(SQUARE),
        [77.469344, 44.565368, 12.818439, 44.565368, 45.722414, 18.928491, 12.818439, 18.928491, 13.975484],
    ),
    "matrix_power": (
        lambda: linalg.matrix_power(SQUARE, -2),
        [0.092593, -0.092593, 0.074074, -0.092593, 0.259259, -0.240741, 0.074074, -0.240741, 0.425926],
    ),
    "pinv": (
        lambda: linalg.pinv(TALL),
        [0.030534, -0.022901, 0.251908, 0.10687, 0.19084, 0.10687, -0.175573, 0.167939],
    ),
    "matrix_rank": (lambda: linalg.matrix_rank(TALL), [2]),
    "multi_dot": (lambda: linalg.multi_dot([TALL.mT, TALL, rl.ones(2, dtype=rl.float64)]), [17.0, 13.0]),
    "ldl_factor": (
        lambda: linalg.ldl_factor(SQUARE).LD,
        [4.0, 0.0, 0.0, 0.25, 2.75, 0.0, 0.0, 0.363636, 1.636364],
    ),
    "ldl_solve": (
        lambda: linalg.ldl_solve(*linalg.ldl_factor(SQUARE), VECTOR[:3, None]),
        [0.222222, 0.111111, 1.444444],
    ),
    "vander": (lambda: linalg.vander(VECTOR[:3]), [1.0, 1.0, 1.0, 1.0, 2.0, 4.0, 1.0, 3.0, 9.0]),
    "kron": (lambda: rl.kron(VECTOR[:2], TALL[:1]), [1.0, 2.0, 2.0, 4.0]),
    "cross": (lambda: linalg.cross(VECTOR[:3], VECTOR[2:]), [-2.0, 4.0, -2.0]),
    "cov": (lambda: rl.cov(TALL.mT), [1.666667, -1.0, -1.0, 2.0]),
    "corrcoef": (lambda: rl.corrcoef(TALL.mT), [1.0, -0.547723, -0.547723, 1.0]),
    "householder_product": (
        lambda: linalg.householder_product(TALL, VECTOR[:2] / 10),
        [0.9, 0.02, 0.0, 0.8, -0.3, 0.26, -0.2, -0.36],
    ),
    "tensorsolve": (
        lambda: linalg.tensorsolve(rl.eye(6).reshape(2, 3, 2, 3) * 2, rl.ones(2, 3)),
        [0.5] * 6,
    ),
    "tensorinv": (lambda: linalg.tensorinv(rl.eye(4).reshape(2, 2, 4) * 4)[0], [0.25, 0.0, 0.0, 0.0]),
}


@pytest.mark.parametrize("name", CASES)
def test_results_are_peers(name):
    call, expected = CASES[name]
    assert flat(call()) == pytest.approx(expected, abs=2e-6)


@pytest.mark.parametrize(
    ("driver", "residuals", "rank", "values"),
    [
        (None, [], [2], []),
        ("gels", [4.030534], [], []),
        ("gelsy", [], [2], []),
        ("gelsd", [4.030534], [2], [3.950386, 2.897318]),
    ],
)
def test_lstsq_gives_what_its_driver_computes(driver, residuals, rank, values):
    found = linalg.lstsq(TALL, RIGHT, driver=driver)
    assert flat(found.solution) == pytest.approx([1.167939, 0.549618], abs=1e-6)
    assert flat(found.residuals) == pytest.approx(residuals, abs=1e-6)
    assert flat(found.rank) == rank
    assert flat(found.singular_values) == pytest.approx(values, abs=1e-6)


def test_factors_multiply_to_the_matrix():
    permutation, lower, upper = linalg.lu(TALL)
    assert flat(permutation @ lower @ upper) == pytest.approx(flat(TALL))
    assert linalg.lu_factor(SQUARE).pivots.tolist() == [1, 2, 3]


@pytest.mark.parametrize("call", [linalg.pinv, rl.matrix_exp, lambda a: linalg.matrix_norm(a, "nuc")])
def test_derivatives_are_differentiated_again(call):
    matrix = SQUARE.clone().requires_grad_()
    assert gradcheck(call, (matrix,))
    assert gradgradcheck(call, (matrix,))


def test_power_zero_has_a_gradient_of_zeros():
    matrix = SQUARE.clone().requires_grad_()
    linalg.matrix_power(matrix, 0).sum().backward()
    assert flat(matrix.grad) == [0.0] * 9


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda: linalg.matrix_norm(TALL, 3), "A004"),
        (lambda: linalg.norm(TALL, "fro", 0), "A004"),
        (lambda: linalg.vector_norm(rl.ones(2, dtype=rl.int64)), "D001"),
        (lambda: linalg.lstsq(TALL, RIGHT, driver="best"), "A004"),
        (lambda: linalg.multi_dot([TALL, TALL]), "S003"),
        (lambda: linalg.tensorinv(TALL, 1), "S003"),
        (lambda: linalg.cond(TALL, 1), "S002"),
        (lambda: rl.lu_unpack(SQUARE, rl.tensor([1, 2, 7], dtype=rl.int32)), "I001"),
        (lambda: rl.lu_unpack(SQUARE, rl.tensor([1, 2, 3, 3], dtype=rl.int32)), "S014"),
    ],
)
def test_wrong_arguments_have_codes(call, code):
    with pytest.raises(rl.RushlightError, match=code):
        call()


@pytest.mark.parametrize(
    "name", ["cholesky_ex", "eig", "eigh", "inv_ex", "ldl_factor_ex", "lu_factor_ex", "qr", "slogdet", "svd"]
)
def test_functions_with_several_results_write_to_out(name):
    function = getattr(rl.linalg, name)
    matrix = rl.tensor([[4.0, 1.0], [1.0, 3.0]])
    expected = function(matrix)
    out = tuple(rl.empty_like(item) for item in expected)
    result = function(matrix, out=out)
    assert type(result) is type(expected)
    assert all(one is other for one, other in zip(result, out, strict=True))
    assert all(rl.equal(one, other) for one, other in zip(out, expected, strict=True))
    with pytest.raises(RuntimeError, match="one tensor for each"):
        function(matrix, out=out[:1])


@pytest.mark.parametrize(("shape", "dim"), [((3, 2), 0), ((2, 3), 1), ((3, 3), 0), ((2, 1, 3), 2)])
def test_cross_takes_the_first_dim_of_three(shape, dim):
    generator = np.random.default_rng(0)
    a, b = [rl.tensor(generator.standard_normal(shape)).requires_grad_() for _ in range(2)]
    expected = np.cross(a.detach().numpy(), b.detach().numpy(), axis=dim)
    found = rl.cross(a, b)
    np.testing.assert_allclose(found.detach().numpy(), expected, rtol=1e-14, atol=1e-14)
    gradients = rl.autograd.grad(found.square().sum(), (a, b))
    compiled = rl.compile(rl.cross)(a, b)
    assert compiled.tolist() == found.tolist()
    for one, other in zip(rl.autograd.grad(compiled.square().sum(), (a, b)), gradients, strict=True):
        assert one.tolist() == other.tolist()
    np.testing.assert_allclose(gradients[0].numpy(), 2 * np.cross(b.detach().numpy(), expected, axis=dim), atol=1e-13)
