"""HTTP: answers, refusals, bytes that are no HTTP, and a thousand requests at once."""

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import numpy as np
import pytest

import rushlight as rl
from rushlight.recsys import EmbeddingBagCollection, EmbeddingBagConfig, KeyedJaggedTensor
from rushlight.recsys.inference import Limits, PredictModule, Service, running
from rushlight.recsys.quant import QuantEmbeddingBagCollection, save_tables

pytest.importorskip("uvicorn", reason="the extra serve is not installed")


def tables() -> QuantEmbeddingBagCollection:
    rl.manual_seed(0)
    configs = [EmbeddingBagConfig(50, 8, "t", feature_names=["user"])]
    configs.append(EmbeddingBagConfig(20, 4, "u", feature_names=["item"]))
    return QuantEmbeddingBagCollection.from_float(EmbeddingBagCollection(configs))


@pytest.fixture
def address():
    limits = Limits(request_bytes=20_000, examples=100)
    with running(Service(PredictModule.of_tables(tables(), compiled=False), limits)) as found:
        yield found


def ask(url: str, body: bytes | None = None, method: str | None = None) -> tuple[int, dict[str, str], bytes]:
    request = urllib.request.Request(url, body, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, dict(answer.headers), answer.read()
    except urllib.error.HTTPError as refusal:
        return refusal.code, dict(refusal.headers), refusal.read()


def predict(address: str, users: list, items: list) -> tuple[int, dict]:
    body = json.dumps({"features": {"user": users, "item": items}}).encode()
    status, _, answer = ask(f"{address}/v1/predict", body)
    return status, json.loads(answer)


@pytest.mark.row("9.4")
def test_answers_are_the_rows_of_the_tables(address: str):
    users, items = [[7], [3, 3, 49], []], [[0, 1], [], [19]]
    status, answer = predict(address, users, items)
    rows = [*users, *items]
    ids = KeyedJaggedTensor(
        ["user", "item"],
        rl.tensor([one for row in rows for one in row]),
        lengths=rl.tensor([len(row) for row in rows]),
    )
    assert status == 200
    assert answer["outputs"] == {name: part.tolist() for name, part in tables()(ids).to_dict().items()}
    assert json.loads(ask(f"{address}/v1/inputs")[2]) == {"features": {"user": 50, "item": 20}, "dense": {}}


def test_health_and_metrics(address: str):
    assert predict(address, [[1]], [[1]])[0] == 200
    assert predict(address, [[50]], [[1]])[0] == 400
    assert json.loads(ask(f"{address}/health")[2]) == {"status": "ok", "waiting": 0}
    status, headers, body = ask(f"{address}/metrics")
    text = body.decode()
    assert status == 200 and headers["content-type"].startswith("text/plain")
    assert 'rushlight_requests_total{status="200"} 2' in text  # the prediction, and the question of health
    assert 'rushlight_requests_total{status="400"} 1' in text
    assert 'rushlight_batch_examples_bucket{le="1"} 1' in text and "rushlight_request_seconds_count 1" in text
    assert "rushlight_waiting 0" in text


@pytest.mark.parametrize(
    ("path", "body", "method", "status", "code"),
    [
        ("/v1/predict", b"{", "POST", 400, "E030"),
        ("/v1/predict", b"\xff\xfe", "POST", 400, "E030"),
        ("/v1/predict", b"[" * 10_000, "POST", 400, "E030"),
        ("/v1/predict", b'{"features": {"user": [[1]]}}', "POST", 400, "E005"),
        ("/v1/predict", b'{"features": {"user": [[50]], "item": [[1]]}}', "POST", 400, "E006"),
        ("/v1/predict", b" " * 20_001, "POST", 413, "E030"),
        (
            "/v1/predict",
            json.dumps({"features": {"user": [[]] * 101, "item": [[]] * 101}}).encode(),
            "POST",
            413,
            "E030",
        ),
        ("/v1/predict", None, "GET", 405, "E030"),
        ("/health", b"{}", "DELETE", 405, "E030"),
        ("/elsewhere", None, "GET", 404, "E030"),
    ],
)
def test_what_does_not_fit_is_refused_by_status(address: str, path: str, body, method: str, status: int, code: str):
    found, _, answer = ask(address + path, body, method)
    assert (found, json.loads(answer)["error"]["code"]) == (status, code)
    assert predict(address, [[1]], [[1]])[0] == 200


def raw(address: str, sent: bytes) -> bytes:
    host, port = re.fullmatch(r"http://(.+):(\d+)", address).groups()
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        found = b""
        with contextlib.suppress(ConnectionError):  # the server may close before it has read everything
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(65536):
                found += part
    return found


MALFORMED = [
    b"\x00" * 100,
    b"GET\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"POST /v1/predict HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\n",
    b"POST /v1/predict HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
    b"POST /v1/predict HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n",
    b"POST /v1/predict HTTP/1.1\r\nHost: a\r\nContent-Length: 50\r\n\r\n{",
    b"POST /v1/predict HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"POST /v1/predict HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    + (b"2000\r\n" + b" " * 8192 + b"\r\n") * 4,
    b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /health HTTP/1.1\r\n" + b"x: y\r\n" * 20_000 + b"\r\n",
]


@pytest.mark.row("9.4")
def test_bytes_that_are_no_request_do_not_end_the_server(address: str):
    rng = np.random.default_rng(0)
    head = b"POST /v1/predict HTTP/1.1\r\nHost: a\r\nContent-Length: 45\r\n\r\n"
    good = head + b'{"features": {"user": [[1]], "item": [[2]]}} '
    mutated = []
    for _ in range(100):
        wrong = bytearray(good)
        for place in rng.integers(0, len(wrong), rng.integers(1, 6)):
            wrong[place] = rng.integers(0, 256)
        mutated.append(bytes(wrong[: rng.integers(1, len(wrong) + 1)]))
    for sent in [*MALFORMED, *mutated]:
        answer = raw(address, sent)
        assert answer == b"" or re.match(rb"HTTP/1\.1 [245]\d\d ", answer), (sent[:80], answer[:80])
        assert not answer.startswith(b"HTTP/1.1 500")
    assert predict(address, [[1]], [[1]])[0] == 200


async def _post(host: str, port: int, body: bytes) -> int:
    reader, writer = await asyncio.open_connection(host, port)
    head = f"POST /v1/predict HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    answer = await reader.read()
    writer.close()
    status = int(answer.split(b" ", 2)[1])
    if status == 200:
        assert len(json.loads(answer.split(b"\r\n\r\n", 1)[1])["outputs"]["user"]) == 1
    return status


async def _at_once(address: str, count: int) -> list[int]:
    host, port = re.fullmatch(r"http://(.+):(\d+)", address).groups()
    bodies = [json.dumps({"features": {"user": [[one % 50]], "item": [[one % 20]]}}).encode() for one in range(count)]
    return await asyncio.wait_for(asyncio.gather(*[_post(host, int(port), body) for body in bodies]), 120)


@pytest.mark.row("9.4")
@pytest.mark.parametrize(("waiting", "statuses"), [(2000, {200}), (8, {200, 503})])
def test_a_thousand_requests_at_once_are_answered_or_refused(waiting: int, statuses: set[int]):
    limits = Limits(waiting=waiting, batch=64 if waiting > 8 else 4, delay=0.0 if waiting > 8 else 0.02)
    with running(Service(PredictModule.of_tables(tables(), compiled=False), limits)) as address:
        assert predict(address, [[1]], [[1]])[0] == 200  # kernels are there
        found = asyncio.run(_at_once(address, 1000))
        assert len(found) == 1000 and set(found) == statuses
        assert predict(address, [[1]], [[1]])[0] == 200


def test_a_model_that_fails_is_a_status_and_tells_nothing_of_itself():
    def failing(ids: KeyedJaggedTensor) -> rl.Tensor:
        raise ValueError("secret")

    with running(Service(PredictModule(failing, {"user": 50}))) as address:
        status, _, body = ask(f"{address}/v1/predict", b'{"features": {"user": [[1]]}}')
    assert status == 500 and b"secret" not in body and json.loads(body)["error"]["message"] == "ValueError"


def test_slow_bodies_and_slow_answers_have_an_end():
    def slow(ids: KeyedJaggedTensor) -> rl.Tensor:
        import time

        time.sleep(0.5)
        return rl.zeros(ids.stride(), 1)

    with running(Service(PredictModule(slow, {"user": 50}), Limits(body_seconds=0.3, answer_seconds=0.1))) as address:
        assert ask(f"{address}/v1/predict", b'{"features": {"user": [[1]]}}')[0] == 504
        host, port = re.fullmatch(r"http://(.+):(\d+)", address).groups()
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            connection.sendall(b"POST /v1/predict HTTP/1.1\r\nHost: a\r\nContent-Length: 50\r\n\r\n{")
            assert connection.recv(100).startswith(b"HTTP/1.1 408")


def test_the_command_serves_a_file_until_it_is_told_to_end(tmp_path):
    save_tables(tables(), tmp_path / "tables.safetensors")
    command = [sys.executable, "-m", "rushlight", "emb", "serve", str(tmp_path / "tables.safetensors"), "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
    ) as server:
        line = server.stdout.readline()
        address = re.search(r"http://127\.0\.0\.1:\d+", line).group()
        assert predict(address, [[1]], [[1]])[0] == 200
        server.send_signal(signal.SIGTERM)
        server.stdout.read()
    assert server.returncode in (0, -signal.SIGTERM)
