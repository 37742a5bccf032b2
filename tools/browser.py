"""A headless Chromium, asked over pipes by the DevTools protocol: no package is needed but Debian's `chromium`.

    with serving(folder) as address, Browser() as browser:
        browser.open(address)
        browser.wait_for("document.querySelector('h1') !== null")
        print(browser.evaluate("document.title"), browser.problems)

`problems` collects what pages complain about: exceptions, errors of the console, requests that failed, and requests
to anywhere but the address that was opened.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self, cast
from urllib.parse import urlsplit

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
OPTIONS = (
    "--headless=new",
    "--no-sandbox",  # the pages are our own, and continuous integration is root
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--remote-debugging-pipe",
    "--no-first-run",
)
LIMIT_SECONDS = 60.0
Message = dict[str, object]


def chromium() -> str | None:
    """Return the path of a Chromium, if there is one."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class BrowserError(Exception):
    """The browser did not answer, or a page did not become what it should be."""


class Browser:
    """One page of a headless browser."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.origin = ""
        self._number = 0
        self._session: str | None = None

    def __enter__(self) -> Self:
        path = chromium()
        if path is None:
            raise BrowserError(f"none of {', '.join(NAMES)} is on PATH")
        self._folder = tempfile.mkdtemp(prefix="rushlight-browser-")
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()

        def place() -> None:  # the protocol reads from 3 and writes to 4; copies keep the two from meeting
            read, write = os.dup(theirs_in), os.dup(theirs_out)
            os.dup2(read, 3)
            os.dup2(write, 4)

        silent = subprocess.DEVNULL
        call = [path, *OPTIONS, f"--user-data-dir={self._folder}", "about:blank"]
        self._process = subprocess.Popen(
            call, stdin=silent, stdout=silent, stderr=silent, close_fds=False, preexec_fn=place
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._begun = b""
        self._attach()
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._in)
        os.close(self._out)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _attach(self) -> None:
        found = cast(list[dict[str, str]], self.call("Target.getTargets")["targetInfos"])
        page = next(each["targetId"] for each in found if each["type"] == "page")
        self._session = cast(str, self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"])
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: object) -> Message:
        """Call a method of the protocol, and return its result; events that come meanwhile are looked at."""
        self._number += 1
        number = self._number
        message: Message = {"id": number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == number:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']}")
                return cast(Message, answer["result"])

    def _read(self) -> Message:
        while b"\0" not in self._begun:
            more = os.read(self._in, 1 << 16)
            if not more:
                raise BrowserError("the browser has ended")
            self._begun += more
        text, self._begun = self._begun.split(b"\0", 1)
        message = cast(Message, json.loads(text))
        self._look_at(cast(str, message.get("method", "")), cast(Message, message.get("params", {})))
        return message

    def _look_at(self, method: str, event: Message) -> None:
        """Note a problem that an event tells."""
        if method == "Runtime.exceptionThrown":
            details = cast(Message, event["exceptionDetails"])
            thrown = cast(Message, details.get("exception", {}))
            self.problems.append(f"exception: {thrown.get('description', details.get('text'))}")
        elif method == "Runtime.consoleAPICalled" and event["type"] in ("error", "assert"):
            said = [part.get("value", part.get("description")) for part in cast(list[Message], event["args"])]
            self.problems.append(f"console: {said}")
        elif method == "Log.entryAdded" and cast(Message, event["entry"])["level"] == "error":
            entry = cast(Message, event["entry"])
            self.problems.append(f"log: {entry['text']} {entry.get('url', '')}")
        elif method == "Network.requestWillBeSent":
            address = urlsplit(cast(str, cast(Message, event["request"])["url"]))
            if address.scheme in ("http", "https") and f"{address.scheme}://{address.netloc}" != self.origin:
                self.problems.append(f"elsewhere: {address.geturl()}")

    def open(self, address: str) -> None:
        """Open a page, and wait until it is complete."""
        parts = urlsplit(address)
        self.origin = f"{parts.scheme}://{parts.netloc}"
        self.call("Page.navigate", url=address)
        self.wait_for(f"document.readyState === 'complete' && location.href.startsWith({json.dumps(address)})")

    def evaluate(self, text: str) -> object:
        """Return what an expression of JavaScript is on the page."""
        result = self.call("Runtime.evaluate", expression=text, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise BrowserError(f"{text}: {result['exceptionDetails']}")
        return cast(Message, result["result"]).get("value")

    def wait_for(self, condition: str) -> None:
        """Wait until an expression is true; a page that is being left has no answer yet."""
        deadline = time.monotonic() + LIMIT_SECONDS
        while self.evaluate(f"Boolean({condition})") is not True:
            if time.monotonic() > deadline:
                raise BrowserError(f"never true: {condition}")
            time.sleep(0.05)


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing of requests."""


@contextmanager
def serving(folder: Path) -> Generator[str]:
    """Serve a folder on this machine alone, and give its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()
