"""In what numbers ranks send each other rows: fewer bits of them, each way."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, unique

import rushlight as rl
from rushlight import Tensor
from rushlight.support.frozen import frozen

BLOCK = 64
"""Numbers that share a scale and a bias as bytes."""


@unique
class CommType(Enum):
    """Numbers of an exchange. Bytes are codes, in blocks with a scale and a bias each."""

    FP32 = "fp32"
    FP16 = "fp16"
    BF16 = "bf16"
    INT8 = "int8"


@frozen
class QCommsConfig:
    """What rows are sent as, and what their gradients are.

    DistributedModelParallel(model, plan=plan, qcomms=QCommsConfig(CommType.INT8, CommType.BF16))
    """

    forward_precision: CommType = CommType.FP32
    backward_precision: CommType = CommType.FP32

    def is_exact(self) -> bool:
        """Return whether all numbers are sent as they are."""
        return self.forward_precision is self.backward_precision is CommType.FP32


EXACT = QCommsConfig()
_HALVES = {CommType.FP32: rl.float32, CommType.FP16: rl.float16, CommType.BF16: rl.bfloat16}


def encoded_counts(kind: CommType, counts: Sequence[int]) -> list[int]:
    """Return the elements that runs of so many numbers are sent as."""
    return [_padded_count(count) // BLOCK * (BLOCK + 8) for count in counts] if kind is CommType.INT8 else list(counts)


def encoded(kind: CommType, flat: Tensor, counts: Sequence[int]) -> Tensor:
    """Return what runs of numbers are sent as. Numbers beyond the range of float16 are sent as its largest."""
    if kind is not CommType.INT8:
        most = 65504.0 if kind is CommType.FP16 else None
        return (flat if most is None else flat.clamp(-most, most)).to(_HALVES[kind])
    runs = flat.split(list(counts))
    padded = [run if run.shape[0] % BLOCK == 0 else _padded(run) for run in runs]
    blocks = rl.cat(padded).float().reshape(-1, BLOCK)
    low, high = blocks.amin(1), blocks.amax(1)
    scales = (high - low) / 255
    exact = rl.where(scales > 0, scales, 1.0).unsqueeze(1)
    codes = ((blocks - low.unsqueeze(1)) / exact).round().clamp(0, 255).to(rl.uint8)
    figures = rl.stack([scales, low], 1).view(rl.uint8)
    return rl.cat([codes, figures], 1).reshape(-1)


def _padded_count(count: int) -> int:
    return -(-count // BLOCK) * BLOCK


def _padded(run: Tensor) -> Tensor:
    """A run made up to whole blocks by its last number, which leaves the range of its block as it is."""
    return rl.cat([run, run[-1:].expand(_padded_count(run.shape[0]) - run.shape[0])])


def decoded(kind: CommType, sent: Tensor, counts: Sequence[int]) -> Tensor:
    """Return the runs of numbers that were sent, as float32."""
    if kind is not CommType.INT8:
        return sent.float()
    blocks = sent.reshape(-1, BLOCK + 8)
    figures = blocks[:, BLOCK:].contiguous().view(rl.float32)
    numbers = blocks[:, :BLOCK].float() * figures[:, :1] + figures[:, 1:]
    runs = numbers.reshape(-1).split([_padded_count(count) for count in counts])
    return rl.cat([run[:count] for run, count in zip(runs, counts, strict=True)])
