"""Functions on tensors that are short programs of operators: each call of them is dispatched on its own."""
