"""`torch._custom_ops`: nothing; `torch.library` registers operators."""

__all__: list[str] = []
