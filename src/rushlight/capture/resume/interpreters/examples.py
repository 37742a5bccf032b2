"""Values for what runs before a graph is traced: zeros for tensors, numbers as they are in the call."""

from __future__ import annotations

from rushlight.capture.resume.interpreters.identifying import fixed_number
from rushlight.capture.values import is_tuple, like_tuple
from rushlight.eager.creation import zeros
from rushlight.eager.dispatch import STATE, Key, Scope, bit
from rushlight.eager.handle import Handle
from rushlight.eager.tracing import TracedNumber
from rushlight.sym import optimization_hint


def untraced() -> Scope:
    """A scope in which operators run, although a graph is traced."""
    return Scope(tracer=None, interpreter=None, included=STATE.included & ~bit(Key.TRACING))


def example_of(value: object) -> object:
    """A value, or containers of values, in which zeros of the same form stand for tensors."""
    if isinstance(value, list):
        return [example_of(part) for part in value]
    if isinstance(value, tuple) and is_tuple(value):
        return like_tuple(value, [example_of(part) for part in value])
    if isinstance(value, dict):
        return {key: example_of(part) for key, part in value.items()}
    if isinstance(value, Handle) and type(value) is not TracedNumber:
        sizes = [optimization_hint(size) for size in value.form.type.shape]
        with untraced():
            return zeros(sizes, dtype=value.form.dtype, device=value.form.device)
    return fixed_number(value)
