"""Compares every operator that exists here with PyTorch on the samples of PyTorch's operator database."""
