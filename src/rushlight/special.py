"""Special functions, as `torch.special`: native kernels with derivatives, precise to a few units in the last place.

>>> import rushlight as rl
>>> rl.special.gammaln(rl.tensor([1.0, 4.0]))
tensor([0.0000, 1.7918])
"""

from typing import Any

from rushlight.eager import functions as ops
from rushlight.eager.boundary import checked
from rushlight.eager.functions import (
    digamma,
    erf,
    erfc,
    erfinv,
    exp2,
    expm1,
    i0,
    log1p,
    log_softmax,
    logit,
    logsumexp,
    polygamma,
    round,
    sinc,
    softmax,
    xlogy,
)
from rushlight.eager.functions import digamma as psi
from rushlight.eager.functions import i0 as modified_bessel_i0
from rushlight.eager.functions import igamma as gammainc
from rushlight.eager.functions import igammac as gammaincc
from rushlight.eager.functions import lgamma as gammaln
from rushlight.eager.functions import mvlgamma as multigammaln
from rushlight.eager.functions import sigmoid as expit
from rushlight.eager.functions import special_airy_ai as airy_ai
from rushlight.eager.functions import special_bessel_j0 as bessel_j0
from rushlight.eager.functions import special_bessel_j1 as bessel_j1
from rushlight.eager.functions import special_bessel_y0 as bessel_y0
from rushlight.eager.functions import special_bessel_y1 as bessel_y1
from rushlight.eager.functions import special_entr as entr
from rushlight.eager.functions import special_erfcx as erfcx
from rushlight.eager.functions import special_i0e as i0e
from rushlight.eager.functions import special_i1 as i1
from rushlight.eager.functions import special_i1 as modified_bessel_i1
from rushlight.eager.functions import special_i1e as i1e
from rushlight.eager.functions import special_log_ndtr as log_ndtr
from rushlight.eager.functions import special_modified_bessel_k0 as modified_bessel_k0
from rushlight.eager.functions import special_modified_bessel_k1 as modified_bessel_k1
from rushlight.eager.functions import special_ndtr as ndtr
from rushlight.eager.functions import special_ndtri as ndtri
from rushlight.eager.functions import special_scaled_modified_bessel_k0 as scaled_modified_bessel_k0
from rushlight.eager.functions import special_scaled_modified_bessel_k1 as scaled_modified_bessel_k1
from rushlight.eager.functions import special_spherical_bessel_j0 as spherical_bessel_j0
from rushlight.eager.functions import special_xlog1py as xlog1py
from rushlight.eager.functions import special_zeta as zeta
from rushlight.support.peer_names import absent_name

__all__ = [
    "airy_ai",
    "bessel_j0",
    "bessel_j1",
    "bessel_y0",
    "bessel_y1",
    "chebyshev_polynomial_t",
    "chebyshev_polynomial_u",
    "chebyshev_polynomial_v",
    "chebyshev_polynomial_w",
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfcx",
    "erfinv",
    "exp2",
    "expit",
    "expm1",
    "gammainc",
    "gammaincc",
    "gammaln",
    "hermite_polynomial_h",
    "hermite_polynomial_he",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
    "log1p",
    "log_ndtr",
    "log_softmax",
    "logit",
    "logsumexp",
    "modified_bessel_i0",
    "modified_bessel_i1",
    "modified_bessel_k0",
    "modified_bessel_k1",
    "multigammaln",
    "ndtr",
    "ndtri",
    "polygamma",
    "psi",
    "round",
    "scaled_modified_bessel_k0",
    "scaled_modified_bessel_k1",
    "shifted_chebyshev_polynomial_t",
    "shifted_chebyshev_polynomial_u",
    "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w",
    "sinc",
    "softmax",
    "spherical_bessel_j0",
    "xlog1py",
    "xlogy",
    "zeta",
]


@checked
def chebyshev_polynomial_t(input: object, n: object, *, out: object = None) -> Any:
    """Return the Chebyshev polynomial of the first kind of degree n."""
    return ops.special_polynomial(input, n, "chebyshev_t", out=out)


@checked
def chebyshev_polynomial_u(input: object, n: object, *, out: object = None) -> Any:
    """Return the Chebyshev polynomial of the second kind of degree n."""
    return ops.special_polynomial(input, n, "chebyshev_u", out=out)


@checked
def chebyshev_polynomial_v(input: object, n: object, *, out: object = None) -> Any:
    """Return the Chebyshev polynomial of the third kind of degree n."""
    return ops.special_polynomial(input, n, "chebyshev_v", out=out)


@checked
def chebyshev_polynomial_w(input: object, n: object, *, out: object = None) -> Any:
    """Return the Chebyshev polynomial of the fourth kind of degree n."""
    return ops.special_polynomial(input, n, "chebyshev_w", out=out)


@checked
def hermite_polynomial_h(input: object, n: object, *, out: object = None) -> Any:
    """Return the physicists' Hermite polynomial of degree n."""
    return ops.special_polynomial(input, n, "hermite_h", out=out)


@checked
def hermite_polynomial_he(input: object, n: object, *, out: object = None) -> Any:
    """Return the probabilists' Hermite polynomial of degree n."""
    return ops.special_polynomial(input, n, "hermite_he", out=out)


@checked
def laguerre_polynomial_l(input: object, n: object, *, out: object = None) -> Any:
    """Return the Laguerre polynomial of degree n."""
    return ops.special_polynomial(input, n, "laguerre_l", out=out)


@checked
def legendre_polynomial_p(input: object, n: object, *, out: object = None) -> Any:
    """Return the Legendre polynomial of degree n."""
    return ops.special_polynomial(input, n, "legendre_p", out=out)


@checked
def shifted_chebyshev_polynomial_t(input: object, n: object, *, out: object = None) -> Any:
    """Return the Chebyshev polynomial of the first kind of degree n, at 2 * input - 1."""
    return ops.special_polynomial(input, n, "chebyshev_t", True, out=out)


@checked
def shifted_chebyshev_polynomial_u(input: object, n: object, *, out: object = None) -> Any:
    """Return the Chebyshev polynomial of the second kind of degree n, at 2 * input - 1."""
    return ops.special_polynomial(input, n, "chebyshev_u", True, out=out)


@checked
def shifted_chebyshev_polynomial_v(input: object, n: object, *, out: object = None) -> Any:
    """Return the Chebyshev polynomial of the third kind of degree n, at 2 * input - 1."""
    return ops.special_polynomial(input, n, "chebyshev_v", True, out=out)


@checked
def shifted_chebyshev_polynomial_w(input: object, n: object, *, out: object = None) -> Any:
    """Return the Chebyshev polynomial of the fourth kind of degree n, at 2 * input - 1."""
    return ops.special_polynomial(input, n, "chebyshev_w", True, out=out)


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
