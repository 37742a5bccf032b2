"""The state of random numbers, under PyTorch's module name."""

from rushlight.eager.random import (
    fork_rng,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)
from rushlight.runtime.generator import default_generator
from rushlight.support.peer_names import absent_name

__all__ = [
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_rng_state",
]


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
