"""Requests to the API: a token that shows nowhere, pages, conditional requests, and failures as errors of ours.

Errors are raised outside of `except` blocks, so that no exception carries the request, and with it the token.
"""

import json
from collections import OrderedDict
from collections.abc import Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

import httpx

from mergedog.clock import Clock
from mergedog.errors import ForgeError, Malformed, NotFound, RateLimited, Refused, Unavailable
from mergedog.governor import Turnstile
from mergedog.secrets import Secret

TIMEOUT_SECONDS = 30.0
PAGES = 50
REMEMBERED = 500
LARGEST_ANSWER = 64 << 20
SECONDARY_SECONDS = 60.0

Method = Literal["GET", "POST", "PATCH"]


class _Bearer(httpx.Auth):
    """Puts the token on a request as it leaves."""

    def __init__(self, token: Secret) -> None:
        self._token = token

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response]:
        request.headers["Authorization"] = f"Bearer {self._token.expose()}"
        yield request


@dataclass(slots=True)
class Transport:
    """The connection to one API. `turnstile` is passed before each request."""

    base: str
    token: Secret
    clock: Clock
    turnstile: Turnstile | None = None
    client: httpx.Client = field(init=False)
    remembered: OrderedDict[str, tuple[str, httpx.Response]] = field(init=False)

    def __post_init__(self) -> None:
        headers = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
        self.client = httpx.Client(headers=headers, timeout=TIMEOUT_SECONDS, follow_redirects=False, trust_env=False)
        self.remembered = OrderedDict()

    def close(self) -> None:
        """Close the connections."""
        self.client.close()

    def get(self, path: str) -> object:
        """Return the JSON answer of one request."""
        return _json(self._get(self._url(path)))

    def pages(self, path: str) -> Iterator[object]:
        """Yield the JSON answers of a request and of the pages that follow."""
        url = self._url(path)
        for _ in range(PAGES):
            response = self._get(url)
            yield _json(response)
            following = response.links.get("next", {}).get("url")
            if following is None:
                return
            if not self._is_ours(following):
                raise Malformed("the next page is on another host")
            url = following
        raise Malformed(f"the forge has more than {PAGES} pages")

    def send(self, method: Method, path: str, body: object = None) -> object:
        """Send a request that changes something, once."""
        response = self._request(method, self._url(path), {}, body)
        self._check(response)
        return _json(response) if response.content else None

    def download(self, path: str) -> str:
        """Return a text that the API redirects to; the other host is not given the token."""
        response = self._request("GET", self._url(path), {})
        target = response.headers.get("location")
        if response.status_code in (301, 302, 303, 307, 308) and target:
            response = self._perform("GET", target, {}, None, None)
        self._check(response)
        return response.content.decode("utf-8", "replace")

    # ------------------------------------------------------------ one request

    def _url(self, path: str) -> str:
        return self.base.rstrip("/") + path

    def _is_ours(self, url: str) -> bool:
        """Whether a URL is below the base, and so may be given the token."""
        ours, theirs = httpx.URL(self.base), _url_or_none(url)
        return theirs is not None and (theirs.scheme, theirs.host, theirs.port) == (ours.scheme, ours.host, ours.port)

    def _get(self, url: str) -> httpx.Response:
        """Ask whether something changed, and return what was remembered if not."""
        known = self.remembered.get(url)
        response = self._request("GET", url, {"If-None-Match": known[0]} if known else {})
        if response.status_code == 304 and known:
            self.remembered.move_to_end(url)
            return known[1]
        self._check(response)
        if tag := response.headers.get("etag"):
            self.remembered[url] = tag, response
            while len(self.remembered) > REMEMBERED:
                self.remembered.popitem(last=False)
        return response

    def _request(self, method: Method, url: str, headers: dict[str, str], body: object = None) -> httpx.Response:
        return self._perform(method, url, headers, body, _Bearer(self.token))

    def _perform(
        self, method: Method, url: str, headers: dict[str, str], body: object, auth: httpx.Auth | None
    ) -> httpx.Response:
        if self.turnstile is not None:
            self.turnstile.enter(f"{method} {httpx.URL(url).path if _url_or_none(url) else '?'}")
        response = None
        with suppress(httpx.HTTPError, httpx.InvalidURL):
            response = self.client.request(method, url, headers=headers, json=body, auth=auth)
        if response is None:
            raise Unavailable("the forge cannot be reached")
        if len(response.content) > LARGEST_ANSWER:
            raise Malformed("the forge's answer is too large")
        return response

    def _check(self, response: httpx.Response) -> None:
        """Raise what a status means."""
        status = response.status_code
        if status < 300:
            return
        if status in (403, 429) and (until := self._limited(response)):
            raise RateLimited(until)
        raise _error(status)

    def _limited(self, response: httpx.Response) -> float:
        """Return until when to wait, 0 if the refusal is not about a limit."""
        now, headers = self.clock.now(), response.headers
        if (seconds := _seconds(headers.get("retry-after"))) is not None:
            return now + max(1.0, seconds)
        reset = _seconds(headers.get("x-ratelimit-reset"))
        if headers.get("x-ratelimit-remaining") == "0" and reset is not None:
            return max(now + 1.0, reset)
        if response.status_code == 429 or b"secondary rate limit" in response.content:
            return now + SECONDARY_SECONDS
        return 0.0


def _seconds(value: str | None) -> float | None:
    return float(value) if value is not None and value.isascii() and value.isdigit() and len(value) < 12 else None


def _url_or_none(url: str) -> httpx.URL | None:
    try:
        return httpx.URL(url)
    except httpx.InvalidURL:
        return None


def _error(status: int) -> ForgeError:
    if status >= 500:
        return Unavailable(f"the forge answers with {status}")
    if status in (404, 410):
        return NotFound("the forge knows no such thing")
    if status < 400:
        return Malformed(f"the forge answers with {status}")
    return Refused(f"the forge refuses with {status}")


def _json(response: httpx.Response) -> object:
    """Return the JSON of an answer; nesting without end is malformed too."""
    value: object = None
    try:
        value = json.loads(response.content)
    except (ValueError, RecursionError):
        value = _NOTHING
    if value is _NOTHING:
        raise Malformed("the forge's answer is no JSON")
    return value


_NOTHING = object()
