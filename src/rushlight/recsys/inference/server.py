"""Running a service by uvicorn, the library of the extra `serve`; this is the door to it."""

from __future__ import annotations

import importlib
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from rushlight.recsys.inference.service import Service
from rushlight.support.errors import error, fail


def _server(service: Service, connections: int) -> Any:
    try:
        uvicorn: Any = importlib.import_module("uvicorn")
    except ImportError as cause:
        hint = "pip install 'rushlight[serve]'"
        raise error("N004", "serve: the library uvicorn is not installed", hint=hint) from cause
    config = uvicorn.Config(
        service,
        http="h11",  # the parser that is Python's alone; it refuses what is no HTTP by status 400
        ws="none",
        lifespan="off",
        log_level="error",
        access_log=False,
        server_header=False,
        limit_concurrency=connections,
        backlog=connections,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=10,
    )
    return uvicorn.Server(config)


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens; port 0 is a free one. E031 where the address is not free."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as cause:
        fail("E031", f"serve: {host} port {port} cannot be listened at: {cause.strerror}", hint="give another --port")


def run(service: Service, listener: socket.socket, connections: int = 4096) -> None:
    """Answer requests until a signal to end. Requests that are under way are answered first."""
    try:
        _server(service, connections).run(sockets=[listener])
    finally:
        service.close()


@contextmanager
def running(service: Service, host: str = "127.0.0.1", port: int = 0) -> Generator[str]:
    """Answer requests in a thread of its own while the block runs, and give the address.

    with running(Service(predict)) as address:
        urllib.request.urlopen(f"{address}/health")
    """
    listener = listening(host, port)
    server = _server(service, 4096)
    thread = threading.Thread(target=lambda: server.run(sockets=[listener]), name="rushlight-serve", daemon=True)
    thread.start()
    try:
        yield f"http://{host}:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        service.close()
