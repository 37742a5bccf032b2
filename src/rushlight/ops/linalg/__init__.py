"""Linear algebra: factorisations, systems, eigenvalues, norms and products of matrices."""

from rushlight.ops.linalg import eigen, factor, lu, solve, triangular

__all__ = ["eigen", "factor", "lu", "solve", "triangular"]
