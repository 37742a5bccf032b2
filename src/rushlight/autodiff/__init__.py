"""Derivatives of programs: the order of a backward pass, joint graphs, partitions."""
