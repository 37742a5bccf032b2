"""Who answers functions on tensors by `__torch_function__`, and how they are asked."""
