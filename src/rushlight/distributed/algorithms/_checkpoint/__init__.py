"""Recomputation of a model's parts."""
