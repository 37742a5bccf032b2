"""Dispatch keys and sets of them.

A set is an int with one bit per key, so that union, difference and "the highest" are single machine operations.
"""

from __future__ import annotations

from enum import Enum, IntEnum


class Key(IntEnum):
    """What can answer an operator call. Of the active keys the highest goes first and redispatches downward."""

    CPU = 0
    META = 1  # no data: the result's type alone
    DEVICE_1 = 2  # devices that plug-ins register, in order of registration
    DEVICE_2 = 3
    DEVICE_3 = 4
    TRACING = 5  # the active tracer records the call
    PYTHON = 6  # __torch_dispatch__ of subclasses and modes: below autograd, above what computes
    FUNCTIONALIZE = 7
    AUTOGRAD = 8
    AUTOCAST = 9
    BATCHED = 10  # vmap
    SPARSE = 11  # sparse tensors: places and values
    FUNCTION = 12  # __torch_function__ of modes and operands
    PROFILE = 13  # measures, and passes on


class Alias(Enum):
    """Several keys at once, for registration. A registration for a key itself comes before any alias.

    BACKENDS: a kernel written in other operators that every device can run, below autograd. ALL: the same, above
    autograd, which then sees the operators that it consists of. BACKENDS comes before ALL.
    """

    BACKENDS = "backends"
    ALL = "all"


def bit(key: Key) -> int:
    """The set of one key."""
    return 1 << key


def keys_in(keys: int) -> tuple[Key, ...]:
    """The members of a set, highest first."""
    return tuple([key for key in sorted(Key, reverse=True) if keys >> key & 1])


ALL_KEYS = (1 << len(Key)) - 1
BACKENDS = bit(Key.CPU) | bit(Key.META) | bit(Key.DEVICE_1) | bit(Key.DEVICE_2) | bit(Key.DEVICE_3)
# What an ALL registration serves: the devices and autograd; the keys between are fallthrough unless someone registers.
IMPLICIT = BACKENDS | bit(Key.AUTOGRAD)
