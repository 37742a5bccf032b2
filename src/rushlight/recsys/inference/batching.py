"""Joining requests of many callers into batches, which one thread answers."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from time import monotonic

from rushlight.recsys.inference.requests import Answer, Request, divided, joined
from rushlight.support.errors import require

Predict = Callable[[Request], Answer]


class Batcher:
    """Answers requests in batches of at most `max_batch` examples. A larger request is a batch of its own.

    While a batch is under way the next requests gather. The first of them waits for others for at most `max_delay`
    seconds. Where a batch fails, its requests are tried one by one, so that each has its own answer or error.
    `on_batch(examples, seconds)` is told of each batch. E031 where more than `max_waiting` requests wait.

    Batcher(predict).submit(request).result()
    """

    def __init__(
        self,
        predict: Predict,
        max_batch: int = 512,
        max_delay: float = 0.001,
        max_waiting: int = 1024,
        on_batch: Callable[[int, float], None] = lambda examples, seconds: None,
    ) -> None:
        self._predict, self._on_batch = predict, on_batch
        self._max_batch, self._max_delay, self._max_waiting = max_batch, max_delay, max_waiting
        self._waiting: deque[tuple[Request, Future[Answer]]] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="rushlight-batcher", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return len(self._waiting)

    def submit(self, request: Request) -> Future[Answer]:
        """Return what will have the answer."""
        promise: Future[Answer] = Future()
        with self._changed:
            free = not self._closed and len(self._waiting) < self._max_waiting
            require(free, "E031", "too many requests wait", waiting=len(self._waiting))
            self._waiting.append((request, promise))
            self._changed.notify()
        return promise

    def close(self) -> None:
        """Answer what waits, and end the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while batch := self._next():
            self._answer(batch)

    def _next(self) -> list[tuple[Request, Future[Answer]]]:
        """The next batch; none when the batcher is closed and nothing waits."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed)
            end = monotonic() + self._max_delay
            while not self._closed and self._examples() < self._max_batch and (left := end - monotonic()) > 0:
                self._changed.wait(left)
            batch: list[tuple[Request, Future[Answer]]] = []
            room = self._max_batch
            while self._waiting and (not batch or self._waiting[0][0].examples <= room):
                batch.append(self._waiting.popleft())
                room -= batch[-1][0].examples
            return batch

    def _examples(self) -> int:
        return sum([request.examples for request, _ in self._waiting])

    def _answer(self, batch: list[tuple[Request, Future[Answer]]]) -> None:
        wanted = [(request, promise) for request, promise in batch if promise.set_running_or_notify_cancel()]
        if not wanted:
            return
        whole = joined([request for request, _ in wanted])
        start = monotonic()
        try:
            answers = divided(self._predict(whole), [request.examples for request, _ in wanted])
        except Exception as failure:  # noqa: BLE001 - whatever a model raises is its callers' to see
            if len(wanted) == 1:
                wanted[0][1].set_exception(failure)
                return
            for request, promise in wanted:
                self._answer_alone(request, promise)
            return
        self._on_batch(whole.examples, monotonic() - start)
        for (_, promise), answer in zip(wanted, answers, strict=True):
            promise.set_result(answer)

    def _answer_alone(self, request: Request, promise: Future[Answer]) -> None:
        try:
            promise.set_result(self._predict(request))
        except Exception as failure:  # noqa: BLE001 - as above
            promise.set_exception(failure)
