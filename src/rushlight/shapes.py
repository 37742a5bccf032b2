"""Specifications of arguments, for compiling without guards: the language, proofs of coverage, proposals."""

from rushlight.ir.spec import ParamsSpec
from rushlight.ir.spec_cover import coverage_hole
from rushlight.ir.spec_leaf import ConstSpec, FloatSpec, IntSpec, TensorSpec
from rushlight.ir.spec_propose import Observed, propose
from rushlight.ir.spec_size import ShapeVar

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
