"""Results that are under way: `wait()` gives them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Awaitable(Generic[T]):
    """What will be there once others have sent their parts. `make` waits and returns it; it is called once.

    Awaitable(lambda: 3).wait()  # 3
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make: Callable[[], T] | None = make
        self._made: list[T] = []

    def wait(self) -> T:
        """Wait, and return the result."""
        if self._make is not None:
            self._made.append(self._make())
            self._make = None
        return self._made[0]


class LazyAwaitable(Awaitable[T]):
    """A result that is waited for when something of it is asked: it has the attributes and the keys of the result.

    LazyAwaitable(lambda: keyed_tensor).values()
    """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.wait(), name)

    def __getitem__(self, key: Any) -> Any:
        made: Any = self.wait()
        return made[key]
