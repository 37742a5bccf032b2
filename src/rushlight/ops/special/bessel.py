"""Bessel functions of orders 0 and 1, first, second and modified kinds, and Airy's function."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from rushlight.ir.scalar import Scalar
from rushlight.ir.value import Value
from rushlight.ops.math import bessel as scalars
from rushlight.ops.pointwise.arithmetic import sign
from rushlight.ops.pointwise.comparison import eq
from rushlight.ops.pointwise.definition import FLOAT, Array, unary
from rushlight.ops.pointwise.elementary import cos
from rushlight.ops.pointwise.selection import where
from rushlight.ops.record import Fact, Operator
from rushlight.ops.special import bessel_arrays as arrays


def _special(
    name: str,
    doc: str,
    ref: Callable[..., Array],
    scalar: Callable[[Scalar], Scalar],
    domain: str | None = None,
    facts: Fact = Fact.NONE,
) -> Operator:
    """An operator of the module `special` alone."""
    return unary(
        f"special_{name}",
        doc,
        ref=ref,
        scalar=scalar,
        result=FLOAT,
        variants="function out",
        domain=domain,
        facts=facts,
    )


i0 = unary(
    "i0",
    "The modified Bessel function of the first kind and order 0.",
    ref=partial(arrays.i_array, 0),
    scalar=scalars.i0,
    result=FLOAT,
)
i0e = _special(
    "i0e",
    "exp(-|input|) times the modified Bessel function of the first kind and order 0.",
    partial(arrays.scaled_i_array, 0),
    scalars.i0e,
)
i1 = _special(
    "i1",
    "The modified Bessel function of the first kind and order 1.",
    partial(arrays.i_array, 1),
    scalars.i1,
)
i1e = _special(
    "i1e",
    "exp(-|input|) times the modified Bessel function of the first kind and order 1.",
    partial(arrays.scaled_i_array, 1),
    scalars.i1e,
)


@i0.vjp
def i0_vjp(g: Value, input: Value) -> Value:
    return g * i1(input)


@i0e.vjp
def i0e_vjp(g: Value, input: Value, out: Value) -> Value:
    return g * (i1e(input) - sign(input) * out)


def _over(value: Value, input: Value) -> Value:
    """value / input, with its limit 1/2 at 0."""
    return where(eq(input, 0), 0.5, value / input)


@i1.vjp
def i1_vjp(g: Value, input: Value, out: Value) -> Value:
    return g * (i0(input) - _over(out, input))


@i1e.vjp
def i1e_vjp(g: Value, input: Value, out: Value) -> Value:
    return g * (i0e(input) - _over(out, input) - sign(input) * out)


modified_bessel_k0 = _special(
    "modified_bessel_k0",
    "The modified Bessel function of the second kind and order 0.",
    partial(arrays.k_array, 0),
    scalars.k0,
    "positive",
)
modified_bessel_k1 = _special(
    "modified_bessel_k1",
    "The modified Bessel function of the second kind and order 1.",
    partial(arrays.k_array, 1),
    scalars.k1,
    "positive",
)
scaled_modified_bessel_k0 = _special(
    "scaled_modified_bessel_k0",
    "exp(x) times the modified Bessel function of the second kind and order 0.",
    partial(arrays.scaled_k_array, 0),
    scalars.k0e,
    "positive",
)
scaled_modified_bessel_k1 = _special(
    "scaled_modified_bessel_k1",
    "exp(x) times the modified Bessel function of the second kind and order 1.",
    partial(arrays.scaled_k_array, 1),
    scalars.k1e,
    "positive",
)


@modified_bessel_k0.vjp
def modified_bessel_k0_vjp(g: Value, input: Value) -> Value:
    return -g * modified_bessel_k1(input)


@modified_bessel_k1.vjp
def modified_bessel_k1_vjp(g: Value, input: Value, out: Value) -> Value:
    return -g * (modified_bessel_k0(input) + out / input)


@scaled_modified_bessel_k0.vjp
def scaled_modified_bessel_k0_vjp(g: Value, input: Value, out: Value) -> Value:
    return g * (out - scaled_modified_bessel_k1(input))


@scaled_modified_bessel_k1.vjp
def scaled_modified_bessel_k1_vjp(g: Value, input: Value, out: Value) -> Value:
    return g * (out - scaled_modified_bessel_k0(input) - out / input)


bessel_j0 = _special(
    "bessel_j0", "The Bessel function of the first kind and order 0.", partial(arrays.j_array, 0), scalars.j0
)
bessel_j1 = _special(
    "bessel_j1", "The Bessel function of the first kind and order 1.", partial(arrays.j_array, 1), scalars.j1
)
bessel_y0 = _special(
    "bessel_y0",
    "The Bessel function of the second kind and order 0.",
    partial(arrays.y_array, 0),
    scalars.y0,
    "positive",
)
bessel_y1 = _special(
    "bessel_y1",
    "The Bessel function of the second kind and order 1.",
    partial(arrays.y_array, 1),
    scalars.y1,
    "positive",
)
spherical_bessel_j0 = _special(
    "spherical_bessel_j0",
    "The spherical Bessel function of the first kind and order 0: sin(x) / x.",
    arrays.spherical_j0_array,
    scalars.spherical_j0,
)


@bessel_j0.vjp
def bessel_j0_vjp(g: Value, input: Value) -> Value:
    return -g * bessel_j1(input)


@bessel_j1.vjp
def bessel_j1_vjp(g: Value, input: Value, out: Value) -> Value:
    return g * (bessel_j0(input) - _over(out, input))


@bessel_y0.vjp
def bessel_y0_vjp(g: Value, input: Value) -> Value:
    return -g * bessel_y1(input)


@bessel_y1.vjp
def bessel_y1_vjp(g: Value, input: Value, out: Value) -> Value:
    return g * (bessel_y0(input) - out / input)


@spherical_bessel_j0.vjp
def spherical_bessel_j0_vjp(g: Value, input: Value, out: Value) -> Value:
    return g * where(eq(input, 0), 0.0, (cos(input) - out) / input)


airy_ai = _special(
    "airy_ai",
    "Airy's function Ai; it has no derivative here, as in PyTorch.",
    arrays.airy_array,
    scalars.airy,
    facts=Fact.NONDIFFERENTIABLE,
)
