"""`torch._subclasses`: names of tensors without data, which packages import."""
