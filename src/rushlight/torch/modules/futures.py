"""`torch.futures`: results that come later, of one process's threads."""

from __future__ import annotations

import concurrent.futures
import itertools
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")
S = TypeVar("S")

__all__ = ["Future", "collect_all", "wait_all"]


class Future(Generic[T]):
    """A result that some thread sets; what `then` is given runs in that thread."""

    def __init__(self, *, devices: Sequence[object] | None = None) -> None:
        self._result: concurrent.futures.Future[T] = concurrent.futures.Future()

    def done(self) -> bool:
        """Whether there is a result or an error."""
        return self._result.done()

    def wait(self) -> T:
        """Wait for the result and return it; the error that was set instead is raised."""
        return self._result.result()

    def value(self) -> T:
        """Return the result; RuntimeError while there is none."""
        if not self.done():
            raise RuntimeError("the future has no result yet: call wait()")
        return self.wait()

    def set_result(self, result: T) -> None:
        """Set the result; an error where there is one already."""
        self._result.set_result(result)

    def set_exception(self, result: BaseException) -> None:
        """Set the error that `wait` raises."""
        self._result.set_exception(result)

    def add_done_callback(self, callback: Callable[[Future[T]], None]) -> None:
        """Call a function with this future once it is done."""
        self._result.add_done_callback(lambda _: callback(self))

    def then(self, callback: Callable[[Future[T]], S]) -> Future[S]:
        """Return a future of what a function makes of this one when it is done."""
        following: Future[S] = Future()
        self.add_done_callback(lambda done: following._follow(callback, done))
        return following

    def _follow(self, callback: Callable[[Future[S]], T], done: Future[S]) -> None:
        try:
            self.set_result(callback(done))
        except BaseException as problem:  # noqa: BLE001 - whoever waits gets it
            self.set_exception(problem)


def collect_all(futures: Sequence[Future[T]]) -> Future[list[Future[T]]]:
    """Return a future that is done when all are, with the list of them."""
    collected: Future[list[Future[T]]] = Future()
    done = itertools.count(1)  # which threads may count at once

    def one_done(future: Future[T]) -> None:
        if next(done) == len(futures):
            collected.set_result(list(futures))

    for future in futures:
        future.add_done_callback(one_done)
    if not futures:
        collected.set_result([])
    return collected


def wait_all(futures: Sequence[Future[T]]) -> list[T]:
    """Wait for all and return their results; the first error is raised."""
    return [future.wait() for future in collect_all(futures).wait()]
