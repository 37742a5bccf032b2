"""Tensors of subclasses: how graphs take them, in parts, and give them."""
