"""Attention layers, and the transformer's."""
