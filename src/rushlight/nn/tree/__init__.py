"""What a module inherits: its tree of tensors and modules, hooks, state and conversions."""
