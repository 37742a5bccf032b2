"""`torch.nn.modules.module`: the name of what `load_state_dict` returns."""

from rushlight.nn.tree.state import IncompatibleKeys as _IncompatibleKeys

__all__ = ["_IncompatibleKeys"]
