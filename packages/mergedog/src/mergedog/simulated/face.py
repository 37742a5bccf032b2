"""The in-memory forge behind HTTP, so that the real client can be tested against it. It binds to 127.0.0.1 alone."""

import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self, cast
from urllib.parse import parse_qs, urlsplit

from mergedog.errors import ForgeError, NotFound, RateLimited, Refused, Unavailable
from mergedog.simulated import wire
from mergedog.simulated.forge import SimForge
from mergedog.simulated.hub import BOT, Hub

Table = dict[str, object]
Query = dict[str, str]


@dataclass(frozen=True, slots=True)
class Answer:
    """A status, headers and a body."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Fault:
    """An answer in place of the right one, `times` times, for paths that match a pattern."""

    pattern: str
    answer: Answer
    times: list[int]


@dataclass(slots=True)
class Face:
    """The server. `requests` has method, path and status of each request; `faults` are planted by tests."""

    hub: Hub
    token: str = field(default="", repr=False)
    page: int = 100
    requests: list[tuple[str, str, int]] = field(default_factory=list[tuple[str, str, int]])
    faults: list[Fault] = field(default_factory=list[Fault], repr=False)
    lock: threading.Lock = field(default_factory=threading.Lock)
    server: ThreadingHTTPServer = field(init=False)

    def __enter__(self) -> Self:
        face = self

        class Handler(_Handler):
            def answer(self) -> Answer:
                return face.respond(self)

        self.server = _Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.server.shutdown()
        self.server.server_close()

    @property
    def url(self) -> str:
        """Where the API is."""
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def plant(self, pattern: str, status: int = 200, body: bytes = b"", times: int = 1, **headers: str) -> None:
        """Answer wrongly for a while; header names have `_` for `-`."""
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        self.faults.append(Fault(pattern, Answer(status, names, body), [times]))

    def respond(self, request: "_Handler") -> Answer:
        """Return the answer to a request."""
        method, body = request.command, request.body()
        with self.lock:
            answer = self._respond(method, request.path, body, request.headers.get("Authorization", ""))
            known = request.headers.get("If-None-Match")
            if answer.status == 200 and method == "GET" and not request.path.startswith("/raw/"):
                entity = wire.tag(answer.body + answer.headers.get("Link", "").encode())
                answer = Answer(200, {**answer.headers, "ETag": entity}, answer.body)
                answer = Answer(304, {"ETag": entity}) if known == entity else answer
            self.requests.append((method, request.path, answer.status))
        return answer

    def _respond(self, method: str, path: str, body: Table, authorization: str) -> Answer:
        for fault in self.faults:
            if fault.times[0] > 0 and re.search(fault.pattern, f"{method} {path}"):
                fault.times[0] -= 1
                return fault.answer
        raw = path.startswith("/raw/")
        if authorization != ("" if raw else f"Bearer {self.token}"):
            return _json({"message": "Bad credentials"}, 401)
        try:
            return self._route(method, path, body)
        except ForgeError as error:
            return self._refusal(error)

    def _refusal(self, error: ForgeError) -> Answer:
        match error:
            case RateLimited():
                wait = max(1, round(error.until - self.hub.now()))
                return Answer(
                    403, {"Retry-After": str(wait)}, b'{"message": "You have exceeded a secondary rate limit"}'
                )
            case NotFound():
                return _json({"message": "Not Found"}, 404)
            case Unavailable():
                return _json({"message": "Server Error"}, 502)
            case _:
                return _json({"message": "Unprocessable"}, 422)

    def _route(self, method: str, path: str, body: Table) -> Answer:
        parts = urlsplit(path)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        place = parts.path.removeprefix(f"/repos/{self.hub.name}")
        for verb, pattern, act in ROUTES:
            found = re.fullmatch(pattern, place)
            if verb == method and found:
                result = act(self, found.groups(), query, body)
                return result if isinstance(result, Answer) else self._paged(result, path, query)
        return _json({"message": "Not Found"}, 404)

    def _paged(self, result: object, path: str, query: Query) -> Answer:
        """Return a list page by page, with a link to the next one."""
        whole = cast("Table", result if isinstance(result, dict) else {"": result})
        key = next((key for key in ("workflow_runs", "jobs", "") if isinstance(whole.get(key), list)), None)
        if key is None:
            return _json(whole.get("", whole))
        rows = cast("list[object]", whole[key])
        page, size = int(query.get("page", "1")), min(self.page, int(query.get("per_page", "30")))
        part = rows[(page - 1) * size : page * size]
        answer = _json({"total_count": len(rows), key: part} if key else part)
        if page * size >= len(rows):
            return answer
        following = re.sub(r"[?&]page=\d+", "", path)
        joint = "&" if "?" in following else "?"
        return Answer(200, {"Link": f'<{self.url}{following}{joint}page={page + 1}>; rel="next"'}, answer.body)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of clients that go away."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # One write for an answer, sent at once: otherwise each waits 40 ms for an acknowledgement of its head.
    wbufsize = 1 << 16
    disable_nagle_algorithm = True

    def answer(self) -> Answer:
        raise NotImplementedError

    def body(self) -> Table:
        length = int(self.headers.get("Content-Length") or 0)
        return cast("Table", json.loads(self.rfile.read(length))) if length else {}

    def _reply(self) -> None:
        answer = self.answer()
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    do_GET = do_POST = do_PATCH = _reply  # noqa: N815 - the names that http.server asks for

    def log_message(self, format: str, *args: object) -> None:
        pass


def _json(value: object, status: int = 200) -> Answer:
    return Answer(status, {"Content-Type": "application/json"}, json.dumps(value).encode())


Route = Callable[[Face, tuple[str, ...], Query, Table], object]


def _pull(face: Face, at: tuple[str, ...], query: Query, body: Table) -> object:
    SimForge(face.hub).pull(int(at[0]))
    return wire.pull_shape(face.hub, face.hub.pulls[int(at[0])])


def _edits(face: Face, at: tuple[str, ...], query: Query, body: Table) -> object:
    return wire.edits_shape(face.hub.pulls[cast("int", cast("Table", body["variables"])["number"])])


def _reviews(face: Face, at: tuple[str, ...], query: Query, body: Table) -> object:
    SimForge(face.hub).reviews(int(at[0]))
    return [wire.review_shape(review) for review in face.hub.pulls[int(at[0])].reviews]


def _comments(face: Face, at: tuple[str, ...], query: Query, body: Table) -> object:
    SimForge(face.hub).comments(int(at[0]))
    return [wire.comment_shape(comment) for comment in face.hub.pulls[int(at[0])].comments]


def _permission(face: Face, at: tuple[str, ...], query: Query, body: Table) -> object:
    return {"permission": "write" if SimForge(face.hub).may_approve(at[0]) else "read"}


def _commit(face: Face, at: tuple[str, ...], query: Query, body: Table) -> object:
    return {"committer": {"login": SimForge(face.hub).committer(at[0])}}


def _runs(face: Face, at: tuple[str, ...], query: Query, body: Table) -> object:
    SimForge(face.hub).runs(query["head_sha"])
    runs = face.hub.visible_runs(query["head_sha"])
    return {"workflow_runs": [wire.run_shape(run, face.hub.now()) for run in runs]}


def _jobs(face: Face, at: tuple[str, ...], query: Query, body: Table) -> object:
    SimForge(face.hub).jobs(int(at[0]))
    return {"jobs": wire.jobs_shape(face.hub.runs[int(at[0])])}


def _log(face: Face, at: tuple[str, ...], query: Query, body: Table) -> object:
    return Answer(302, {"Location": f"{face.url}/raw/{at[0]}"})


def _raw(face: Face, at: tuple[str, ...], query: Query, body: Table) -> object:
    run, place = divmod(int(at[0]), 100)
    return Answer(200, {}, list(face.hub.runs[run].results().values())[place].log.encode())


def _issues(face: Face, at: tuple[str, ...], query: Query, body: Table) -> object:
    return [{"number": number} for number in SimForge(face.hub).incidents(query["labels"])]


def _ref(face: Face, at: tuple[str, ...], query: Query, body: Table) -> object:
    if sha := SimForge(face.hub).ref(f"refs/{at[0]}"):
        return {"object": {"sha": sha}}
    raise NotFound("no such ref")


def _move_ref(face: Face, at: tuple[str, ...], query: Query, body: Table) -> object:
    if f"refs/{at[0]}" not in face.hub.refs:
        raise Refused("Reference does not exist")
    SimForge(face.hub).set_ref(f"refs/{at[0]}", str(body["sha"]))
    return {"object": {"sha": body["sha"]}}


def _make_ref(face: Face, at: tuple[str, ...], query: Query, body: Table) -> object:
    SimForge(face.hub).set_ref(str(body["ref"]), str(body["sha"]))
    return {"object": {"sha": body["sha"]}}


def _approve(face: Face, at: tuple[str, ...], query: Query, body: Table) -> object:
    SimForge(face.hub).approve_run(int(at[0]))
    return Answer(201)


def _rerun(face: Face, at: tuple[str, ...], query: Query, body: Table) -> object:
    SimForge(face.hub).rerun_failed(int(at[0]))
    return Answer(201)


def _write(face: Face, at: tuple[str, ...], query: Query, body: Table) -> object:
    return {"id": SimForge(face.hub).comment(int(at[0]), str(body["body"]))}


def _edit(face: Face, at: tuple[str, ...], query: Query, body: Table) -> object:
    SimForge(face.hub).edit_comment(int(at[0]), str(body["body"]))
    return {"id": int(at[0])}


def _user(face: Face, at: tuple[str, ...], query: Query, body: Table) -> object:
    return {"login": BOT}


ROUTES: tuple[tuple[str, str, Route], ...] = (
    ("GET", r"/user", _user),
    ("POST", r"/graphql", _edits),
    ("GET", r"/pulls/(\d+)", _pull),
    ("GET", r"/pulls/(\d+)/reviews", _reviews),
    ("GET", r"/issues/(\d+)/comments", _comments),
    ("POST", r"/issues/(\d+)/comments", _write),
    ("PATCH", r"/issues/comments/(\d+)", _edit),
    ("GET", r"/issues", _issues),
    ("GET", r"/collaborators/([\w-]+)/permission", _permission),
    ("GET", r"/commits/([0-9a-f]+)", _commit),
    ("GET", r"/actions/runs", _runs),
    ("GET", r"/actions/runs/(\d+)/jobs", _jobs),
    ("GET", r"/actions/jobs/(\d+)/logs", _log),
    ("GET", r"/raw/(\d+)", _raw),
    ("POST", r"/actions/runs/(\d+)/approve", _approve),
    ("POST", r"/actions/runs/(\d+)/rerun-failed-jobs", _rerun),
    ("GET", r"/git/ref/(.+)", _ref),
    ("PATCH", r"/git/refs/(.+)", _move_ref),
    ("POST", r"/git/refs", _make_ref),
)
