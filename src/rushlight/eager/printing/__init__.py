"""Tensors as people read them: text, and HTML in notebooks."""
