"""`torch.utils.data._utils.collate`: functions that make one batch of samples."""

from __future__ import annotations

import re

from rushlight.utils.data import default_collate, default_convert

__all__ = ["default_collate", "default_convert", "np_str_obj_array_pattern"]

np_str_obj_array_pattern = re.compile("[SaUO]")
