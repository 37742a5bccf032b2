"""Differential fuzzers: random programs that run with PyTorch and with Rushlight, or eager and compiled."""
