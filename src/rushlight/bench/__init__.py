"""Benchmarks beside peers.

`catalog` lists what is measured; `programs` has each thing written for each framework, and numpy's version in float64
is what all are checked against; `worker` is the script that runs one framework in an interpreter of its own;
`contestants` drives workers over pipes; `timing` takes samples in turns; `peak` and `copying` measure what the
processor could do at most; `results` turns samples into a record that `reports` shows.

Modules that a worker needs import numpy and the standard library only: a peer's interpreter has no more.
"""
