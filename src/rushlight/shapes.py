"""Specifications of arguments, for compiling without guards: the language, proofs of coverage, proposals."""

from rushlight.ir.spec.cover import coverage_hole
from rushlight.ir.spec.leaf import ConstSpec, FloatSpec, IntSpec, TensorSpec
from rushlight.ir.spec.propose import Observed, propose
from rushlight.ir.spec.size import ShapeVar
from rushlight.ir.spec.specification import ParamsSpec

__all__ = [
    "ConstSpec",
    "FloatSpec",
    "IntSpec",
    "Observed",
    "ParamsSpec",
    "ShapeVar",
    "TensorSpec",
    "coverage_hole",
    "propose",
]
