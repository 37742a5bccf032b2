"""`torch.return_types`: the named tuples that functions return, by the function's name."""

from __future__ import annotations

from rushlight.eager.composite.analysis import Histogram as histogram  # noqa: N813 - PyTorch's name
from rushlight.eager.composite.numbers import Frequent as mode  # noqa: N813 - PyTorch's name
from rushlight.eager.composite.numbers import Parts as frexp  # noqa: N813 - PyTorch's name
from rushlight.eager.composite.statistics import Extremes as aminmax  # noqa: N813 - PyTorch's name
from rushlight.eager.composite.statistics import Ranked as nanmedian  # noqa: N813 - PyTorch's name
from rushlight.eager.ordering import Ordered as sort  # noqa: N813 - PyTorch's name
from rushlight.eager.results import results_type as _type
from rushlight.linalg.systems import Factors as linalg_lu_factor  # noqa: N813 - PyTorch's name
from rushlight.linalg.systems import LeastSquares as linalg_lstsq  # noqa: N813 - PyTorch's name
from rushlight.linalg.systems import Symmetric as linalg_ldl_factor  # noqa: N813 - PyTorch's name
from rushlight.linalg.systems import Unpacked as linalg_lu  # noqa: N813 - PyTorch's name
from rushlight.ops import OPERATORS as _OPERATORS

__all__ = [
    "aminmax",
    "cummax",
    "cummin",
    "frexp",
    "geqrf",
    "histogram",
    "kthvalue",
    "linalg_cholesky_ex",
    "linalg_eig",
    "linalg_eigh",
    "linalg_inv_ex",
    "linalg_ldl_factor",
    "linalg_ldl_factor_ex",
    "linalg_lstsq",
    "linalg_lu",
    "linalg_lu_factor",
    "linalg_lu_factor_ex",
    "linalg_qr",
    "linalg_slogdet",
    "linalg_solve_ex",
    "linalg_svd",
    "lu_unpack",
    "max",
    "median",
    "min",
    "mode",
    "nanmedian",
    "qr",
    "slogdet",
    "sort",
    "svd",
    "topk",
    "triangular_solve",
]

kthvalue = median = topk = sort
max, min = _type(_OPERATORS["max.dim"]), _type(_OPERATORS["min.dim"])
cummax, cummin = _type(_OPERATORS["cummax"]), _type(_OPERATORS["cummin"])
geqrf, lu_unpack = _type(_OPERATORS["geqrf"]), _type(_OPERATORS["lu_unpack"])
qr, slogdet, svd = _type(_OPERATORS["qr"]), _type(_OPERATORS["slogdet"]), _type(_OPERATORS["svd"])
triangular_solve = _type(_OPERATORS["triangular_solve"])
linalg_cholesky_ex, linalg_inv_ex = _type(_OPERATORS["linalg_cholesky_ex"]), _type(_OPERATORS["linalg_inv_ex"])
linalg_eig, linalg_eigh = _type(_OPERATORS["linalg_eig"]), _type(_OPERATORS["linalg_eigh"])
linalg_ldl_factor_ex = _type(_OPERATORS["linalg_ldl_factor_ex"])
linalg_lu_factor_ex, linalg_qr = _type(_OPERATORS["linalg_lu_factor_ex"]), _type(_OPERATORS["linalg_qr"])
linalg_slogdet, linalg_solve_ex = _type(_OPERATORS["linalg_slogdet"]), _type(_OPERATORS["linalg_solve_ex"])
linalg_svd = _type(_OPERATORS["linalg_svd"])
