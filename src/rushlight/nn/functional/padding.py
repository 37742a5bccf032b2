"""Padding of the last dims."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.eager import functions as ops
from rushlight.eager.autocast import autocasts
from rushlight.eager.tensor import Tensor
from rushlight.sym import Size

_pad_in_float32 = autocasts("float32")(ops.pad)


def pad(input: Tensor, pad: Sequence[Size], mode: str = "constant", value: float | None = None) -> Tensor:
    """Return a tensor with `pad` elements before and after each of its last dims, the last dim's first.

    They are `value` (0), or by `mode` the tensor's own: "reflect", "replicate" or "circular". Negative numbers cut off.
    """
    # As in PyTorch, which has no policy for reflection in three dims.
    mirrored = isinstance(mode, str) and (mode == "replicate" or (mode == "reflect" and len(pad) <= 4))
    return (_pad_in_float32 if mirrored else ops.pad)(input, pad, mode, value)
