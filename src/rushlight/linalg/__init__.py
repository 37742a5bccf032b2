"""Linear algebra on matrices and batches of them, as `torch.linalg`: by LAPACK, with derivatives.

>>> import rushlight as rl
>>> A = rl.tensor([[4.0, 2.0], [2.0, 3.0]])
>>> rl.linalg.cholesky(A)
tensor([[2.0000, 0.0000],
        [1.0000, 1.4142]])
"""

from rushlight.eager.functions import linalg_cholesky as cholesky
from rushlight.eager.functions import linalg_cholesky_ex as cholesky_ex
from rushlight.eager.functions import linalg_det as det
from rushlight.eager.functions import linalg_eig as eig
from rushlight.eager.functions import linalg_eigh as eigh
from rushlight.eager.functions import linalg_eigvals as eigvals
from rushlight.eager.functions import linalg_eigvalsh as eigvalsh
from rushlight.eager.functions import linalg_inv as inv
from rushlight.eager.functions import linalg_inv_ex as inv_ex
from rushlight.eager.functions import linalg_lu_factor_ex as lu_factor_ex
from rushlight.eager.functions import linalg_lu_solve as lu_solve
from rushlight.eager.functions import linalg_qr as qr
from rushlight.eager.functions import linalg_slogdet as slogdet
from rushlight.eager.functions import linalg_solve as solve
from rushlight.eager.functions import linalg_solve_ex as solve_ex
from rushlight.eager.functions import linalg_solve_triangular as solve_triangular
from rushlight.eager.functions import linalg_svd as svd
from rushlight.eager.functions import linalg_svdvals as svdvals
from rushlight.support.errors import LinAlgError
from rushlight.support.peer_names import absent_name

__all__ = [
    "LinAlgError",
    "cholesky",
    "cholesky_ex",
    "det",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "inv_ex",
    "lu_factor_ex",
    "lu_solve",
    "qr",
    "slogdet",
    "solve",
    "solve_ex",
    "solve_triangular",
    "svd",
    "svdvals",
]


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
