"""Gradients of a trace: `inputs` are those before it, `joint` its backward pass, `orders` those of any order."""
