"""`torch.nn.init`: the names of its functions that count fans, which packages import."""

from rushlight.nn.init import calculate_fan as _calculate_correct_fan
from rushlight.nn.init import calculate_fans as _calculate_fan_in_and_fan_out

__all__ = ["_calculate_correct_fan", "_calculate_fan_in_and_fan_out"]
