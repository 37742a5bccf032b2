"""Layers that rearrange, pad and compare, most of them without parameters."""
