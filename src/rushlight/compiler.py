"""What `rl.compile` has compiled, and how to forget it."""

from rushlight.capture import compile, graph_count, reset
from rushlight.support.peer_names import absent_name

__all__ = ["compile", "graph_count", "reset"]


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
