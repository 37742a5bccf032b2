"""Benchmarks of operators: `record` says what one is, `programs` has them, `catalog` finds them.

A benchmark has variants, each an implementation in PyTorch's API, and numpy's result in float64, which all are checked
against. `serving` runs a variant in a worker; `measuring` times variants in turns; `metrics` says what is shown.

Modules that a worker needs import numpy and the standard library only, and the API under the name `rushlight`.
"""
