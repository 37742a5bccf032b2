"""Special functions against numbers of mpmath, computed in 60 digits at points of every range and beside seams."""

import pytest

import rushlight as rl
from rushlight.autograd import gradcheck, gradgradcheck

# By function: arguments, and what it is there.
NUMBERS = {
    "lgamma": [
        (1e-10, 23.025850929882736),
        (0.3, 1.0957979948180756),
        (0.999, 0.0005780385328913802),
        (1.5, -0.12078223763524522),
        (2.001, 0.000423106734800117),
        (5.75, 4.366716036622286),
        (8.5, 9.549267257300997),
        (171.5, 709.1431630309282),
        (1000000.0, 12815504.569147611),
        (-0.25, 1.589575312551186),
        (-3.7, -1.3797399049658245),
    ],
    "digamma": [
        (1e-10, -10000000000.577215),
        (0.3, -3.502524222200133),
        (1.46, -0.0015805619870834522),
        (1.5, 0.03648997397857652),
        (5.75, 1.6597303710679365),
        (8.5, 2.08009081757942),
        (1000000.0, 13.815510057964191),
        (-0.25, 2.9141391202135276),
        (-3.7, -0.8450768588704194),
    ],
    "igamma": [
        (0.01, 0.5, 0.9943732438060329),
        (0.5, 1e-06, 0.0011283787909692363),
        (0.5, 3.0, 0.9856941215645704),
        (3.0, 2.5, 0.45618688411667047),
        (15.5, 18.5, 0.7885068482781783),
        (30.0, 28.0, 0.3773896943143976),
        (300.0, 150.0, 3.130415125696515e-27),
        (10000.0, 10100.0, 0.8413487504471796),
    ],
    "igammac": [
        (1e-08, 1.5, 1.0001958374029749e-09),
        (0.01, 0.5, 0.0056267561939671844),
        (0.5, 3.0, 0.01430587843542964),
        (3.0, 2.5, 0.5438131158833295),
        (3.0, 40.0, 3.572865928700226e-15),
        (15.5, 18.5, 0.2114931517218217),
        (30.0, 33.0, 0.27730137093140717),
        (300.0, 700.0, 8.140453840482531e-66),
        (10000.0, 10100.0, 0.15865124955282037),
    ],
    "polygamma(1)": [
        (0.01, 10001.621213528313),
        (0.5, 4.934802200544679),
        (3.0, 0.39493406684822646),
        (40.0, 0.02531510384129103),
        (-1.25, 19.181879647671607),
    ],
    "polygamma(4)": [
        (0.01, -240000000023.7009),
        (0.5, -771.4742498266672),
        (3.0, -0.13626612344087824),
        (40.0, -2.463377839277213e-06),
        (-1.25, 24481.063714184584),
    ],
    "special.zeta": [
        (1.5, 1.0, 2.612375348685488),
        (2.0, 0.25, 17.19732915450711),
        (7.5, 30.0, 4.287769275306338e-11),
    ],
    "erfinv": [
        (1e-12, 8.86226925452758e-13),
        (0.3, 0.2724627147267543),
        (-0.75, -0.8134198475976185),
        (0.99, 1.8213863677184494),
        (0.9999999, 3.7665625816384707),
        (0.9999999999999991, 5.686128441310391),
    ],
    "special.erfcx": [
        (-3.0, 16205.988853999586),
        (-0.5, 1.952360489182557),
        (0.25, 0.7703465477309968),
        (2.0, 0.25539567631050575),
        (27.5, 0.0205024473846148),
        (10000.0, 5.641895807268084e-05),
    ],
    "special.ndtri": [
        (1e-20, -9.262340089798407),
        (0.001, -3.0902323061678136),
        (0.05, -1.6448536269514726),
        (0.3, -0.5244005127080408),
        (0.75, 0.6744897501960817),
        (0.999, 3.090232306167813),
    ],
    "special.log_ndtr": [
        (-100.0, -5005.524208694205),
        (-5.0, -15.064998393988725),
        (-0.5, -1.1759117615936185),
        (0.5, -0.3689464152886564),
        (6.0, -9.865876455243758e-10),
    ],
    "sinc": [
        (1e-09, 1.0),
        (0.3, 0.8583936913341398),
        (1.5, -0.2122065907891938),
        (10.25, 0.02195893454041722),
        (-1234.75, 0.00018228716666473092),
    ],
    "i0": [
        (0.25, 1.015686141223608),
        (-3.0, 4.8807925858650245),
        (9.5, 1753.4809905273228),
        (200.0, 2.0396871734097245e85),
    ],
    "special.i0e": [
        (0.25, 0.7910171621397194),
        (-3.0, 0.2430003541618254),
        (9.5, 0.13125126081426788),
        (10000.0, 0.003989472674604732),
    ],
    "special.i1": [
        (0.25, 0.12597910894546793),
        (-3.0, -3.9533702174026093),
        (9.5, 1658.4530777821342),
        (200.0, 2.034581549332063e85),
    ],
    "special.i1e": [
        (0.25, 0.09811262869736824),
        (-3.0, -0.19682671329730086),
        (9.5, 0.12413824765488178),
        (10000.0, 0.003989273195983662),
    ],
    "special.modified_bessel_k0": [
        (1e-06, 13.93144207362642),
        (0.75, 0.6105824221164641),
        (1.875, 0.1329048390345923),
        (4.5, 0.006399857243233975),
        (100.0, 4.656628229175902e-45),
    ],
    "special.modified_bessel_k1": [
        (1e-06, 999999.9999927843),
        (0.75, 0.9495804669621403),
        (1.875, 0.16508225585016484),
        (4.5, 0.00707809490896809),
        (100.0, 4.6798537356369095e-45),
    ],
    "special.scaled_modified_bessel_k0": [
        (1e-06, 13.931456005075459),
        (0.75, 1.2926029977639617),
        (4.5, 0.5760967897687883),
        (1000.0, 0.03962832160075422),
    ],
    "special.scaled_modified_bessel_k1": [
        (1e-06, 1000000.9999932843),
        (0.75, 2.010261864333922),
        (4.5, 0.6371497987781355),
        (1000.0, 0.03964813081296021),
    ],
    "special.bessel_j0": [
        (0.25, 0.9844359292958527),
        (-3.0, -0.26005195490193345),
        (7.5, 0.2663396578803784),
        (30.0, -0.08636798358104021),
        (10000.0, -0.0070961603533888015),
    ],
    "special.bessel_j1": [
        (0.25, 0.12402597732272692),
        (-3.0, -0.3390589585259365),
        (7.5, 0.1352484275797055),
        (30.0, -0.11875106261662294),
        (10000.0, 0.0036474507555295803),
    ],
    "special.bessel_y0": [
        (1e-06, -8.869031481659444),
        (0.25, -0.9315730249300587),
        (3.0, 0.3768500100127904),
        (8.5, 0.27020510536578746),
        (30.0, -0.11729573168666403),
    ],
    "special.bessel_y1": [
        (1e-06, -636619.772372175),
        (0.25, -2.7041052293152825),
        (3.0, 0.3246744247918),
        (8.5, -0.02616867939853747),
        (30.0, 0.08442557066174723),
    ],
    "special.spherical_bessel_j0": [
        (1e-06, 0.9999999999998334),
        (0.25, 0.9896158370180917),
        (-3.0, 0.04704000268662241),
        (30.0, -0.03293438746976206),
    ],
    "special.airy_ai": [
        (-30.0, -0.08796818845684216),
        (-4.5, 0.2921527810559595),
        (0.5, 0.23169360648083348),
        (2.5, 0.01572592338047049),
        (9.0, 2.47116843087249e-09),
    ],
    "special.entr": [
        (0.25, 0.34657359027997264),
        (3.0, -3.295836866004329),
    ],
    "xlogy": [
        (0.5, 0.001, -3.4538776394910684),
        (-2.0, 7.0, -3.8918202981106265),
    ],
    "special.xlog1py": [
        (0.5, 0.001, 0.0004997501665417666),
        (-2.0, 7.0, -4.1588830833596715),
    ],
    "logaddexp": [
        (0.5, -1.5, 0.6269280110429725),
        (1000.0, 999.0, 1000.3132616875182),
    ],
    "logaddexp2": [
        (0.5, -1.5, 0.8219280948873623),
        (2000.0, 1999.0, 2000.584962500721),
    ],
}
NAN, INF = float("nan"), float("inf")
# By function: arguments and results at the edges, as PyTorch 2.13 has them.
EDGES = {
    "lgamma": [(0.0, INF), (-0.0, INF), (-2.0, INF), (INF, INF), (-INF, INF), (NAN, NAN), (1.0, 0.0), (2.0, 0.0)],
    "digamma": [(0.0, -INF), (-0.0, INF), (-2.0, NAN), (INF, INF), (-INF, NAN), (NAN, NAN)],
    "polygamma(1)": [(0.0, INF), (NAN, NAN), (INF, 0.0)],
    "igamma": [(0.0, 1.0, 1.0), (0.0, 0.0, NAN), (2.0, 0.0, 0.0), (2.0, INF, 1.0), (INF, 2.0, 0.0), (INF, INF, NAN),
               (-1.0, 2.0, NAN), (1.0, -2.0, NAN), (NAN, 1.0, NAN), (NAN, 0.0, NAN), (INF, NAN, NAN), (NAN, INF, NAN),
               (3e38, 100.0, 0.0)],
    "igammac": [(0.0, 1.0, 0.0), (0.0, 0.0, NAN), (2.0, 0.0, 1.0), (2.0, INF, 0.0), (INF, 2.0, 1.0), (INF, INF, NAN),
                (-1.0, 2.0, NAN), (1.0, -2.0, NAN), (NAN, 1.0, NAN), (NAN, 0.0, NAN), (INF, NAN, NAN), (NAN, INF, NAN),
                (3e38, 100.0, 1.0)],
    "special.zeta": [(1.0, 2.0, INF), (0.5, 2.0, NAN), (2.0, 0.0, INF), (2.0, -1.0, INF), (NAN, 1.0, NAN)],
    "erfinv": [(1.0, INF), (-1.0, -INF), (0.0, 0.0), (1.5, NAN), (NAN, NAN)],
    "special.ndtri": [(0.0, -INF), (1.0, INF), (0.5, 0.0), (-0.5, NAN), (1.5, NAN), (NAN, NAN)],
    "special.erfcx": [(INF, 0.0), (-INF, INF), (0.0, 1.0), (NAN, NAN)],
    "special.log_ndtr": [(-INF, -INF), (INF, 0.0), (NAN, NAN)],
    "special.entr": [(0.0, 0.0), (-1.0, -INF), (INF, -INF), (NAN, NAN)],
    "xlogy": [(0.0, 0.0, 0.0), (0.0, -1.0, 0.0), (0.0, NAN, NAN), (1.0, 0.0, -INF), (NAN, 1.0, NAN)],
    "logaddexp": [(INF, INF, INF), (-INF, -INF, -INF), (INF, -INF, INF), (NAN, 1.0, NAN), (-INF, 2.0, 2.0)],
    "sinc": [(0.0, 1.0), (3.0, 0.0), (NAN, NAN)],
    "i0": [(INF, INF), (-INF, INF), (0.0, 1.0), (NAN, NAN)],
    "special.i1": [(INF, INF), (-INF, -INF), (0.0, 0.0), (NAN, NAN)],
    "special.bessel_y0": [(0.0, -INF), (-1.0, NAN), (NAN, NAN)],
    "special.modified_bessel_k0": [(0.0, INF), (-1.0, NAN), (NAN, NAN)],
}  # fmt: skip


def function_named(name):
    """A function of the namespace, `polygamma(n)` with its order given."""
    head, _, order = name.rstrip(")").partition("(")
    owner = rl.special if head.startswith("special.") else rl
    found = getattr(owner, head.removeprefix("special."))
    return (lambda x: found(int(order), x)) if order else found


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_those_of_60_digits(name):
    *arguments, expected = [rl.tensor(column, dtype=rl.float64) for column in zip(*NUMBERS[name], strict=True)]
    found = function_named(name)(*arguments)
    rl.testing.assert_close(found, expected, rtol=2e-13, atol=1e-15)
    # Digits that float32 drops from arguments count by how steep the function is: it is given the rounded ones.
    rounded = [argument.float() for argument in arguments]
    exact = function_named(name)(*[argument.double() for argument in rounded])
    rl.testing.assert_close(function_named(name)(*rounded), exact.float(), rtol=2.5e-7, atol=0.0, equal_nan=True)


@pytest.mark.parametrize("dtype", [rl.float32, rl.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("name", EDGES)
def test_edges_are_peers(name, dtype):
    *arguments, expected = [rl.tensor(column, dtype=dtype) for column in zip(*EDGES[name], strict=True)]
    rl.testing.assert_close(function_named(name)(*arguments), expected, rtol=0.0, atol=0.0, equal_nan=True)


@pytest.mark.parametrize("name", ["lgamma", "erfinv", "igammac", "special.i1", "special.bessel_y0"])
def test_compiled_and_sliced_is_eager(name):
    *arguments, _ = [rl.tensor(column).repeat(5)[::2] for column in zip(*NUMBERS[name], strict=True)]
    function = function_named(name)
    found = rl.compile(lambda *given: function(*[item * 0.5 for item in given]))(*arguments)
    assert rl.equal(found, function(*[item * 0.5 for item in arguments]))


def test_integers_become_floats():
    orders, values = rl.tensor([1, 2, 3]), rl.tensor([2, 2, 5])
    assert rl.lgamma(values).dtype is rl.float32
    rl.testing.assert_close(rl.igamma(orders, values), rl.igamma(orders.float(), values.float()))
    rl.testing.assert_close(rl.xlogy(orders, values), rl.xlogy(orders.float(), values.float()))


def test_orders_broadcast():
    orders, values = rl.tensor([[0.5], [3.0], [40.0]]), rl.tensor([0.25, 2.0, 39.0, 60.0])
    total = rl.igamma(orders, values) + rl.igammac(orders, values)
    rl.testing.assert_close(total, rl.ones(3, 4))
    assert rl.igamma(orders, values).shape == (3, 4)


def test_gradients_reach_the_second_operand_and_higher_orders():
    x = rl.tensor([0.5, 1.5, 3.0], dtype=rl.float64, requires_grad=True)
    order = rl.tensor([0.75, 2.0, 25.0], dtype=rl.float64)
    for function in (rl.igamma, rl.igammac):
        assert gradcheck(lambda y, f=function: f(order, y), (x,))
        assert gradgradcheck(lambda y, f=function: f(order, y), (x,))
    assert gradgradcheck(lambda y: rl.polygamma(2, y), (x,))


@pytest.mark.parametrize("scale", [0.1, 1.0, 1.7])
def test_incomplete_gammas_move_with_their_order(scale):
    order = rl.tensor([0.01, 0.3, 1.0, 2.5, 30.0, 500.0], dtype=rl.float64, requires_grad=True)
    x = order.detach() * scale
    (slope,) = rl.autograd.grad(rl.igamma(order, x).sum(), order)
    (other,) = rl.autograd.grad(rl.igammac(order, x).sum(), order)
    step = 1e-5
    above, below = [rl.igamma(order.detach() * (1 + sign * step), x) for sign in (1, -1)]
    difference = (above - below) / (2 * step * order.detach())
    assert slope.tolist() == pytest.approx(difference.tolist(), rel=1e-7, abs=1e-12)
    assert other.tolist() == (-slope).tolist()


def test_incomplete_gammas_are_still_at_their_ends():
    order = rl.tensor([1.0, 2.0], requires_grad=True)
    for x in (0.0, float("inf")):
        assert rl.autograd.grad(rl.igamma(order, rl.tensor(x)).sum(), order)[0].tolist() == [0.0, 0.0]
    orders = rl.tensor([[1.0], [2.0]], dtype=rl.float64, requires_grad=True)
    x = rl.tensor([0.5, 3.0], dtype=rl.float64, requires_grad=True)
    assert gradcheck(rl.igamma, (orders, x)) and gradgradcheck(rl.igammac, (orders, x))


def test_forms_of_the_tensor():
    x = rl.tensor([0.5, 1.5])
    expected = rl.polygamma(2, x)
    assert rl.equal(x.polygamma(2), expected)
    assert rl.equal(rl.polygamma(n=2, input=x), expected)
    assert rl.equal(x.clone().polygamma_(2), expected)
    out = rl.empty(2)
    assert rl.special.polygamma(2, x, out=out) is out
    assert rl.equal(out, expected)
    assert rl.equal(x.mvlgamma(1), x.lgamma())
    for function in (lambda: x.polygamma(-1), lambda: x.mvlgamma(0)):
        with pytest.raises(rl.ArgumentError, match="must") as caught:
            function()
        assert caught.value.code == "A002"


# PyTorch 2.13, at x = [-1.5, 0.25, 1, 3] and the degrees [0, 3, 4, 7].
POLYNOMIALS = {
    "chebyshev_polynomial_t": [1.0, -0.6875, 1.0, 114243.0],
    "chebyshev_polynomial_u": [1.0, -0.875, 5.0, 235416.0],
    "chebyshev_polynomial_v": [1.0, -0.125, 1.0, 195025.0],
    "chebyshev_polynomial_w": [1.0, -1.625, 9.0, 275807.0],
    "hermite_polynomial_h": [1.0, -2.875, -20.0, 39024.0],
    "hermite_polynomial_he": [1.0, -0.734375, -2.0, -396.0],
    "laguerre_polynomial_l": [1.0, 0.341145833333, -0.625, -0.746428571429],
    "legendre_polynomial_p": [1.0, -0.3359375, 1.0, 48639.0],
    "shifted_chebyshev_polynomial_t": [1.0, 1.0, 1.0, 4656965.0],
    "shifted_chebyshev_polynomial_u": [1.0, 1.0, 5.0, 9409960.0],
    "shifted_chebyshev_polynomial_v": [1.0, 1.0, 1.0, 8459361.0],
    "shifted_chebyshev_polynomial_w": [1.0, 1.0, 9.0, 10360559.0],
}


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials_have_each_elements_degree(name):
    function = getattr(rl.special, name)
    x = rl.tensor([-1.5, 0.25, 1, 3], dtype=rl.float64)
    found = function(x, rl.tensor([0, 3, 4, 7]))
    rl.testing.assert_close(found, rl.tensor(POLYNOMIALS[name], dtype=rl.float64), rtol=1e-11, atol=1e-12)
    assert rl.equal(function(x, 3)[1], found[1])
    assert rl.equal(function(x, 0), rl.ones(4, dtype=rl.float64))


@pytest.mark.parametrize(("name", "moved"), [("xlogy", 0.0), ("special.xlog1py", 1.0)])
def test_a_factor_of_0_has_the_logarithm_as_its_gradient_where_there_is_one(name, moved):
    factor = rl.zeros(5, dtype=rl.float64, requires_grad=True)
    argument = rl.tensor([2.0, 0.0, -1.0, NAN, INF], dtype=rl.float64) - moved
    function = function_named(name)
    expected = [0.6931471805599453, 0.0, 0.0, NAN, INF]  # as of PyTorch
    (gradient,) = rl.autograd.grad(function(factor, argument).sum(), factor)
    assert gradient.tolist() == pytest.approx(expected, nan_ok=True)
    for number, of_one in zip((2.0, 0.0), expected, strict=False):
        (gradient,) = rl.autograd.grad(function(factor, number - moved).sum(), factor)
        assert gradient.tolist() == pytest.approx([of_one] * 5)
