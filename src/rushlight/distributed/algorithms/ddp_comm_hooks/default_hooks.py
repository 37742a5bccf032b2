"""Hooks that take the mean of gradients, also in 16 bits: PyTorch's `default_hooks`."""

from __future__ import annotations

from typing import Any

from rushlight.distributed.collectives import all_reduce
from rushlight.distributed.engine.work import WorkFuture
from rushlight.distributed.group import Group, member
from rushlight.eager.tensor import Tensor
from rushlight.ir.dtype import DType, bfloat16, float16
from rushlight.nn.parallel.bucket import GradBucket
from rushlight.nn.parallel.reducer import CommunicationHook, reduced_value
from rushlight.support.errors import require

__all__ = [
    "allreduce_hook",
    "bf16_compress_hook",
    "bf16_compress_wrapper",
    "fp16_compress_hook",
    "fp16_compress_wrapper",
]


def allreduce_hook(process_group: Group, bucket: GradBucket) -> WorkFuture:
    """Take the mean over all ranks, as `DistributedDataParallel` does without a hook.

    >>> model.register_comm_hook(None, allreduce_hook)
    """
    return _mean(process_group, bucket, bucket.buffer().dtype)


def fp16_compress_hook(process_group: Group, bucket: GradBucket) -> WorkFuture:
    """Send gradients as float16: half of the bytes, values up to 65,504."""
    return _mean(process_group, bucket, float16)


def bf16_compress_hook(process_group: Group, bucket: GradBucket) -> WorkFuture:
    """Send gradients as bfloat16: half of the bytes, three digits."""
    return _mean(process_group, bucket, bfloat16)


def fp16_compress_wrapper(hook: CommunicationHook) -> CommunicationHook:
    """Return a hook that gives another one gradients in float16, and takes what that returns back."""
    return _narrowed(hook, float16)


def bf16_compress_wrapper(hook: CommunicationHook) -> CommunicationHook:
    """Return a hook that gives another one gradients in bfloat16, and takes what that returns back."""
    return _narrowed(hook, bfloat16)


def _mean(process_group: Group, bucket: GradBucket, dtype: DType) -> WorkFuture:
    buffer = bucket.buffer()
    sent = buffer.to(dtype).div_(member(process_group).size)
    work: Any = all_reduce(sent, group=process_group, async_op=True)
    return work.get_future().then(lambda _: buffer if sent is buffer else buffer.copy_(sent))


def _narrowed(hook: CommunicationHook, dtype: DType) -> CommunicationHook:
    def narrowed(state: object, bucket: GradBucket) -> WorkFuture:
        returned = hook(state, bucket.narrowed(dtype))
        return WorkFuture(lambda: _back(bucket.buffer(), reduced_value(returned)))

    return narrowed


def _back(buffer: Tensor, reduced: object) -> Tensor:
    given = type(reduced).__name__
    require(isinstance(reduced, Tensor), "A001", "compress_wrapper: a hook gives a tensor", given=given)
    assert isinstance(reduced, Tensor)
    return buffer.copy_(reduced)
