"""`torch._subclasses`: names of tensors without data, which packages import."""

from rushlight.torch.named import named_only

__all__ = ["FakeTensor", "FakeTensorMode"]

_NAMED = named_only("_subclasses.fake_tensor")
FakeTensor: type = getattr(_NAMED, "FakeTensor")  # noqa: B009 - a name of the table
FakeTensorMode: type = getattr(_NAMED, "FakeTensorMode")  # noqa: B009 - a name of the table
