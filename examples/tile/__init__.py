"""Kernels in the tile language, each with what it means and what it is measured against."""
