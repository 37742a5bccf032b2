"""Transforms against recorded numbers of PyTorch 2.13: results, inverses, Jacobians, shapes; and their cache."""

import pytest
from tests.distributions.test_families import made

import rushlight as rl
from rushlight.distributions import transforms

VECTORS = "[[0.1, -0.5, 0.7], [1.0, 2.0, -3.0]]"
POSITIVE = "[[0.1, 0.5, 0.7], [1.0, 2.0, 3.0]]"
MATRIX = "[[0.1, -0.5], [1.0, 2.0]]"
# A transform, its input, the result, and the logarithm of the Jacobian's determinant where there is one.
CASES = [
    (
        "AffineTransform(T([1.0, 2.0, 3.0]), T([2.0, -1.0, 3.0]), event_dim=1)",
        VECTORS,
        [1.2, 2.5, 5.1, 3, 0, -6],
        [1.791759469, 1.791759469],
    ),
    (
        "PowerTransform(T([2.0, -1.0, 0.5]))",
        POSITIVE,
        [0.01, 2, 0.8366600265, 1, 0.5, 1.732050808],
        [-1.609437912, 1.386294361, -0.5148097086, 0.6931471806, -1.386294361, -1.242453325],
    ),
    (
        "SoftplusTransform()",
        VECTORS,
        [0.7443966601, 0.4740769842, 1.103186049, 1.313261688, 2.126928011, 0.04858735157],
        [-0.6443966601, -0.9740769842, -0.4031860489, -0.3132616875, -0.126928011, -3.048587352],
    ),
    (
        "TanhTransform()",
        VECTORS,
        [0.09966799462, -0.4621171573, 0.6043677771, 0.761594156, 0.9640275801, -0.9950547537],
        [-0.009983377643, -0.2402290139, -0.4545404587, -0.867561661, -2.650005495, -4.618657009],
    ),
    (
        "SoftmaxTransform()",
        VECTORS,
        [0.2966540007, 0.1628071675, 0.5405388319, 0.2676231541, 0.7274751568, 0.00490168905],
        None,
    ),
    (
        "StickBreakingTransform()",
        VECTORS,
        [
            0.2692143494,
            0.1700512906,
            0.3746758427,
            0.1860585172,
            0.4753668864,
            0.4128789376,
            0.005300039375,
            0.1064541366,
        ],
        [-5.747290649, -9.108351297],
    ),
    (
        "CorrCholeskyTransform()",
        VECTORS,
        [
            1,
            0,
            0,
            0.09966799462,
            0.995020749,
            0,
            -0.4621171573,
            0.5359647576,
            0.7065334469,
            1,
            0,
            0,
            0.761594156,
            0.6480542737,
            0,
            0.9640275801,
            -0.2644877713,
            0.02640158449,
        ],
        [-0.8248673572, -9.461226912],
    ),
    ("PositiveDefiniteTransform()", MATRIX, [1.221402758, 1.105170918, 1.105170918, 55.59815003], None),
    ("ReshapeTransform((3,), (1, 3))", VECTORS, [0.1, -0.5, 0.7, 1, 2, -3], [0, 0]),
    (
        "CumulativeDistributionTransform(Normal(T(0.0), T(1.0)))",
        VECTORS,
        [0.5398278373, 0.3085375387, 0.7580363478, 0.8413447461, 0.9772498681, 0.001349898032],
        [-0.9239385332, -1.043938533, -1.163938533, -1.418938533, -2.918938533, -5.418938533],
    ),
    (
        "ComposeTransform([StickBreakingTransform(), AffineTransform(0.0, 2.0)])",
        VECTORS,
        [
            0.5384286989,
            0.3401025813,
            0.7493516855,
            0.3721170344,
            0.9507337728,
            0.8257578753,
            0.01060007875,
            0.2129082731,
        ],
        [-2.974701927, -6.335762575],
    ),
    (
        "CatTransform([ExpTransform(), AffineTransform(0.0, 2.0)], dim=-1, lengths=[1, 2])",
        VECTORS,
        [1.105170918, -1, 1.4, 2.718281828, 4, -6],
        [0.1, 0.6931471806, 0.6931471806, 1, 0.6931471806, 0.6931471806],
    ),
    (
        "StackTransform([ExpTransform(), SigmoidTransform(), AbsTransform()], dim=-1)",
        VECTORS,
        [1.105170918, 0.3775406688, 0.7, 2.718281828, 0.880797078, 3],
        None,
    ),
    (
        "biject_to(constraints.interval(1.0, 3.0))",
        VECTORS,
        [2.049958375, 1.755081338, 2.336375544, 2.462117157, 2.761594156, 1.094851746],
        [-0.6956461396, -0.7550067878, -0.8132249172, -0.9333761945, -1.560708842, -2.404027523],
    ),
    (
        "biject_to(constraints.less_than(2.0))",
        VECTORS,
        [0.8948290819, 1.39346934, -0.01375270747, -0.7182818285, -5.389056099, 1.950212932],
        [0.1, -0.5, 0.7, 1, 2, -3],
    ),
    (
        "transform_to(constraints.independent(constraints.positive, 1))",
        VECTORS,
        [1.105170918, 0.6065306597, 2.013752707, 2.718281828, 7.389056099, 0.04978706837],
        [0.3, 0],
    ),
    ("transform_to(constraints.lower_cholesky)", MATRIX, [1.105170918, 0, 1, 7.389056099], None),
]
NOT_INJECTIVE = ("Softmax", "PositiveDefinite", "Stack", "lower_cholesky")


@pytest.mark.parametrize(("text", "given", "result", "jacobian"), CASES, ids=[case[0] for case in CASES])
def test_transforms_equal_pytorchs(text, given, result, jacobian):
    transform, x = made(text), made(f"T({given})")
    y = transform(x)
    assert y.reshape(-1).tolist() == pytest.approx(result, rel=2e-9, abs=1e-11)
    assert bool(transform.codomain.check(y).all())
    assert tuple(transform.forward_shape(x.shape)) == tuple(y.shape)
    assert tuple(transform.inverse_shape(y.shape)) == tuple(x.shape)
    if not any(name in text for name in NOT_INJECTIVE):
        assert transform.inv(y).reshape(-1).tolist() == pytest.approx(x.reshape(-1).tolist(), rel=1e-7)
    if jacobian is None:
        return
    found = transform.log_abs_det_jacobian(x, y)
    assert found.reshape(-1).tolist() == pytest.approx(jacobian, rel=2e-9, abs=1e-11)
    assert rl.equal(transform.inv.log_abs_det_jacobian(y, x), -found)


def test_cache_returns_the_very_input_of_a_result():
    x = rl.randn(3)
    cached = transforms.TanhTransform(cache_size=1)
    assert cached.inv(cached(x)) is x
    plain = transforms.TanhTransform()
    assert plain.inv(plain(x)) is not x
    affine = transforms.AffineTransform(rl.tensor(1.0), 2.0)
    assert affine.with_cache() == affine and affine.with_cache() is not affine and affine.inv.inv is affine


def test_what_is_not_there_is_refused():
    with pytest.raises(rl.NotSupportedError, match="no transform is registered"):
        made("biject_to(constraints.boolean)")
    with pytest.raises(ValueError, match="differ in number"):
        transforms.ReshapeTransform((2,), (3,))
    with pytest.raises(ValueError, match="no triangle has so many"):
        transforms.CorrCholeskyTransform()(rl.zeros(2))
    with pytest.raises(ValueError, match="does not lie in the support"):
        made("LogNormal(0.0, 1.0)").log_prob(rl.tensor(-1.0))
    with pytest.raises(ValueError, match="exactly one of"):
        made("MultivariateNormal(T(0.0, 1.0))")
