"""Linear algebra: factorisations, systems, eigenvalues, norms and products of matrices."""

from rushlight.ops.linalg import earlier, eigen, factor, function, lu, product, solve, symmetric, triangular

__all__ = ["earlier", "eigen", "factor", "function", "lu", "product", "solve", "symmetric", "triangular"]
