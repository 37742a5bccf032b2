"""A collective under way."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from rushlight.support.errors import RushlightError

Timeout = float | timedelta | None


def seconds(timeout: Timeout) -> float | None:
    """A timeout as seconds."""
    return timeout.total_seconds() if isinstance(timeout, timedelta) else timeout


def is_of_another(failure: BaseException) -> bool:
    """Whether a rank fails because another one has failed or returned: that one's failure counts as the first."""
    return isinstance(failure, RushlightError) and failure.code in ("W004", "W005")


class WorkFuture:
    """What will be the result of a collective, or of functions after it: `work.get_future().then(f).wait()`."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._made: list[Any] = []

    def done(self) -> bool:
        """Whether the value is there."""
        return bool(self._made)

    def wait(self) -> Any:
        """Wait for the value and return it; raises what made it fail."""
        if not self._made:
            self._made.append(self._make())
        return self._made[0]

    def value(self) -> Any:
        """The value."""
        return self.wait()

    def then(self, function: Callable[[WorkFuture], Any]) -> WorkFuture:
        """The future of what a function makes of this one, which it gets."""

        def make() -> Any:
            self.wait()
            return function(self)

        return WorkFuture(make)


class Work(ABC):
    """A collective that has been issued: `work = all_reduce(x, async_op=True)`, and later `work.wait()`.

    The buffers are the engine's until it is complete.
    """

    def __init__(self) -> None:
        self._callbacks: list[Callable[[], object]] = []
        self._failure: BaseException | None = None
        self.tensors: list[Any] = []

    @abstractmethod
    def poll(self) -> bool:
        """Whether the engine is done with it, without waiting. Raises what made it fail."""

    @abstractmethod
    def block(self, timeout: float | None) -> None:
        """Waits until `poll()`. Raises what made it fail."""

    @abstractmethod
    def go_on(self) -> None:
        """Lets it go on while this rank does something else, where the engine can."""

    def is_completed(self) -> bool:
        """Whether it is complete, without waiting."""
        if self._failure is not None:
            return True
        try:
            done = self.poll()
        except Exception as failure:  # noqa: BLE001 - `wait` and `exception` tell it
            self._failure = failure
            return True
        if done:
            self._tell()
        return done

    def is_success(self) -> bool:
        """Whether it is complete and nothing failed."""
        return self.is_completed() and self._failure is None

    def wait(self, timeout: Timeout = None) -> bool:
        """Waits until it is complete, in seconds at most; returns True. Raises what made it fail."""
        if self._failure is not None:
            raise self._failure
        try:
            self.block(seconds(timeout))
        except Exception as failure:
            self._failure = failure
            raise
        self._tell()
        return True

    def exception(self) -> BaseException | None:
        """What made it fail; None as long as nothing has."""
        return self._failure

    def result(self) -> list[Any]:
        """The tensors that it writes to, once it is complete."""
        self.wait()
        return self.tensors

    def get_future(self) -> WorkFuture:
        """Its end as a future, whose value is `result()`."""
        return WorkFuture(self.result)

    def add_done_callback(self, function: Callable[[], object]) -> None:
        """Calls a function once this rank sees that it is complete."""
        self._callbacks.append(function)

    def source_rank(self) -> int:
        """The rank that a message came from, in its group; -1 where it is no message."""
        return -1

    def _tell(self) -> None:
        callbacks, self._callbacks = self._callbacks, []
        for function in callbacks:
            function()


class Done(Work):
    """Work that was complete when it was issued."""

    def go_on(self) -> None:
        """Nothing: it is complete."""

    def poll(self) -> bool:
        """True."""
        return True

    def block(self, timeout: float | None) -> None:
        """Returns at once."""
