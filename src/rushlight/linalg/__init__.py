"""Linear algebra on matrices and batches of them, as `torch.linalg`: by LAPACK, with derivatives.

>>> import rushlight as rl
>>> A = rl.tensor([[4.0, 2.0], [2.0, 3.0]])
>>> rl.linalg.cholesky(A)
tensor([[2.0000, 0.0000],
        [1.0000, 1.4142]])
"""

from rushlight.eager import functions as ops
from rushlight.eager.boundary import checked
from rushlight.eager.composite.forms import with_out
from rushlight.eager.functions import linalg_cholesky as cholesky
from rushlight.eager.functions import linalg_cross as cross
from rushlight.eager.functions import linalg_det as det
from rushlight.eager.functions import linalg_eigvals as eigvals
from rushlight.eager.functions import linalg_eigvalsh as eigvalsh
from rushlight.eager.functions import linalg_householder_product as householder_product
from rushlight.eager.functions import linalg_inv as inv
from rushlight.eager.functions import linalg_ldl_solve as ldl_solve
from rushlight.eager.functions import linalg_lu_solve as lu_solve
from rushlight.eager.functions import linalg_solve as solve
from rushlight.eager.functions import linalg_solve_triangular as solve_triangular
from rushlight.eager.functions import linalg_svdvals as svdvals
from rushlight.eager.functions import linalg_vecdot as vecdot
from rushlight.eager.functions import matmul, matrix_exp, matrix_power
from rushlight.eager.tensor import Tensor
from rushlight.linalg.norms import cond, matrix_norm, matrix_rank, norm, pinv, vector_norm
from rushlight.linalg.systems import ldl_factor, lstsq, lu, lu_factor, multi_dot, tensorinv, tensorsolve, vander
from rushlight.support.errors import LinAlgError
from rushlight.support.peer_names import absent_name

__all__ = [
    "LinAlgError",
    "cholesky",
    "cholesky_ex",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "householder_product",
    "inv",
    "inv_ex",
    "ldl_factor",
    "ldl_factor_ex",
    "ldl_solve",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_factor_ex",
    "lu_solve",
    "matmul",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "multi_dot",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_ex",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensorinv",
    "tensorsolve",
    "vander",
    "vecdot",
    "vector_norm",
]

# Functions with several results.
cholesky_ex = with_out(ops.linalg_cholesky_ex)
eig = with_out(ops.linalg_eig)
eigh = with_out(ops.linalg_eigh)
inv_ex = with_out(ops.linalg_inv_ex)
ldl_factor_ex = with_out(ops.linalg_ldl_factor_ex)
lu_factor_ex = with_out(ops.linalg_lu_factor_ex)
qr = with_out(ops.linalg_qr)
slogdet = with_out(ops.linalg_slogdet)
solve_ex = with_out(ops.linalg_solve_ex)
svd = with_out(ops.linalg_svd)


@checked
def diagonal(A: Tensor, *, offset: object = 0, dim1: object = -2, dim2: object = -1) -> Tensor:
    """Return a diagonal of two dims, by default the last ones, as a view."""
    return ops.diagonal(A, offset, dim1, dim2)


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
