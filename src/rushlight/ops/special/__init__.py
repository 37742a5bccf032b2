"""Special functions: of gamma and zeta, error functions, Bessel functions, logarithms of sums, polynomials."""

from rushlight.ops.special import bessel, error, gamma, incomplete, logarithm, orthogonal

__all__ = ["bessel", "error", "gamma", "incomplete", "logarithm", "orthogonal"]
