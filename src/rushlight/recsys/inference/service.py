"""A service as an ASGI application: it needs no library itself; any ASGI server runs it.

`POST /v1/predict` takes `{"features": {"user": [[7], [3, 4]]}, "dense": {"floats": [[0.5], [1.0]]}}`, a list for each
example, and gives `{"outputs": {"user": [[…], […]]}}`. `GET /v1/inputs` tells the inputs, `GET /health` whether the
service answers, `GET /metrics` its figures. Errors are `{"error": {"code", "message", "hint"}}`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import replace
from time import monotonic
from typing import Any

from rushlight.recsys.inference.batching import Batcher
from rushlight.recsys.inference.metrics import Metrics
from rushlight.recsys.inference.predict import PredictModule
from rushlight.recsys.inference.requests import Request
from rushlight.support.errors import RushlightError, error
from rushlight.support.frozen import frozen

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
_JSON, _TEXT = "application/json", "text/plain; version=0.0.4"


@frozen
class Limits:
    """What a service takes on: bytes and examples of a request, requests that wait, seconds for body and answer."""

    request_bytes: int = 1 << 20
    examples: int = 4096
    waiting: int = 1024
    body_seconds: float = 10.0
    answer_seconds: float = 30.0
    batch: int = 512
    delay: float = 0.001


@frozen
class _Answer:
    """Status, body and headers of an answer, and the time that a prediction took."""

    status: int
    body: bytes
    kind: str = _JSON
    headers: tuple[tuple[str, str], ...] = ()
    seconds: float | None = None


class _Disconnected(Exception):
    """Whoever asked has gone."""


class Service:
    """Answers HTTP requests with the results of a module. No request ends it; what it cannot do it says by a status.

    server = uvicorn.Server(uvicorn.Config(Service(predict), host="127.0.0.1", port=8000))
    """

    def __init__(self, predict: PredictModule, limits: Limits | None = None) -> None:
        self._predict, self._limits = predict, limits or Limits()
        self._metrics = Metrics()
        own = self._limits
        self._batcher = Batcher(predict, own.batch, own.delay, own.waiting, self._metrics.batch)
        self._routes: Mapping[str, tuple[str, Callable[[Message, Receive], Awaitable[_Answer]]]] = {
            "/v1/predict": ("POST", self._predicted),
            "/v1/inputs": ("GET", self._inputs),
            "/health": ("GET", self._health),
            "/metrics": ("GET", self._figures),
        }

    def close(self) -> None:
        """Answer what waits, and end."""
        self._batcher.close()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        try:
            answer = await self._answer(scope, receive)
        except _Disconnected:
            return
        self._metrics.answered(answer.status, answer.seconds)
        headers = [("content-type", answer.kind), ("content-length", str(len(answer.body))), *answer.headers]
        lines = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        await send({"type": "http.response.start", "status": answer.status, "headers": lines})
        await send({"type": "http.response.body", "body": answer.body})

    async def _answer(self, scope: Message, receive: Receive) -> _Answer:
        method, route = self._routes.get(scope["path"], ("", None))
        if route is None:
            return _refusal(404, error("E030", "there is nothing at this path", hint=", ".join(self._routes)))
        if scope["method"] != method:
            return _refusal(405, error("E030", f"this path is asked by {method}"), ("allow", method))
        try:
            return await route(scope, receive)
        except _Disconnected:
            raise
        except Exception as failure:  # noqa: BLE001 - whatever happens, there is an answer
            return _refusal(500, failure)

    async def _health(self, scope: Message, receive: Receive) -> _Answer:
        del scope, receive
        return _json({"status": "ok", "waiting": self._batcher.waiting})

    async def _figures(self, scope: Message, receive: Receive) -> _Answer:
        del scope, receive
        return _Answer(200, self._metrics.text(self._batcher.waiting).encode(), _TEXT)

    async def _inputs(self, scope: Message, receive: Receive) -> _Answer:
        del scope, receive
        inputs = self._predict.inputs
        return _json({"features": dict(inputs.features), "dense": dict(inputs.dense)})

    async def _predicted(self, scope: Message, receive: Receive) -> _Answer:
        try:
            body = await asyncio.wait_for(self._body(scope, receive), self._limits.body_seconds)
        except TimeoutError:
            return _refusal(408, error("E030", "the body of the request did not come in time"))
        if body is None:
            most = self._limits.request_bytes
            return _refusal(413, error("E030", f"a request has at most {most} bytes", hint="send fewer examples"))
        start = monotonic()
        try:
            request = self._predict.inputs.request(json.loads(body))
        except RushlightError as failure:
            return _refusal(400, failure)
        except (ValueError, RecursionError):
            return _refusal(400, error("E030", "the body of the request is no JSON"))
        if request.examples > self._limits.examples:
            return _refusal(413, error("E030", f"a request has at most {self._limits.examples} examples"))
        answer = await self._of_batch(request)
        return replace(answer, seconds=monotonic() - start) if answer.status == 200 else answer

    async def _of_batch(self, request: Request) -> _Answer:
        try:
            promise = self._batcher.submit(request)
        except RushlightError as busy:
            return _refusal(503, busy, ("retry-after", "1"))
        try:
            found = await asyncio.wait_for(asyncio.wrap_future(promise), self._limits.answer_seconds)
        except TimeoutError:
            return _refusal(504, error("E031", "there was no answer in time"))
        return _json({"outputs": {name: rows.tolist() for name, rows in found.items()}})

    async def _body(self, scope: Message, receive: Receive) -> bytes | None:
        """The body; None where it is larger than it may be."""
        most = self._limits.request_bytes
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if declared.isdigit() and int(declared) > most:
            return None
        parts: list[bytes] = []
        size, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _Disconnected
            part: bytes = message.get("body", b"")
            size += len(part)
            if size > most:
                return None
            parts.append(part)
            more = message.get("more_body", False)
        return b"".join(parts)


def _json(value: object) -> _Answer:
    return _Answer(200, json.dumps(value).encode())


def _refusal(status: int, failure: Exception, *headers: tuple[str, str]) -> _Answer:
    """The answer of an error. What a model raises besides ours may hold what is not for callers."""
    if isinstance(failure, RushlightError):
        told = {"code": failure.code, "message": failure.message, "hint": failure.hint}
    else:
        told = {"code": "", "message": type(failure).__name__, "hint": None}
    return _Answer(status, json.dumps({"error": told}).encode(), headers=headers)
