"""A store that one process serves, and others reach by its address.

A request is a line of JSON: the operation and its arguments. The answer is one as well: the result, or an error.
"""

from __future__ import annotations

import socket
import socketserver
import threading
import time
from datetime import timedelta
from typing import Any

from rushlight.distributed.stores.store import Store
from rushlight.distributed.stores.table import OPERATIONS, Table, from_json, to_json
from rushlight.support import lazy
from rushlight.support.errors import RushlightError, error

_PAUSE = 0.02  # seconds between attempts to connect
_COME = "init/"  # the key that counts who has connected
_MOST_BYTES = 1 << 28  # of a request


class _Server(socketserver.ThreadingTCPServer):
    """Serves a table: a thread for each that has connected."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, address: tuple[str, int]) -> None:
        super().__init__(address, _Connection)
        self.table = Table()
        self.lock = threading.Lock()
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def end(self) -> None:
        """Take no more connections."""
        self.shutdown()
        self.server_close()


class _Connection(socketserver.StreamRequestHandler):
    disable_nagle_algorithm = True

    def handle(self) -> None:
        """Answer requests until the other side closes."""
        try:
            while line := self.rfile.readline(_MOST_BYTES):
                self.wfile.write(lazy.json.dumps(self._answer(line)).encode() + b"\n")
        except (OSError, ValueError, KeyError, TypeError):
            return  # who sends something else is not answered

    def _answer(self, line: bytes) -> dict[str, object]:
        operation, *args = lazy.json.loads(line)
        server: Any = self.server
        with server.lock:
            try:
                result = OPERATIONS[operation](server.table, *map(from_json, args))
            except RushlightError as failure:
                return {"code": failure.code, "message": failure.message}
        return {"result": to_json(result)}


class TCPStore(Store):
    """A store at an address: the process with `is_master` serves it, and the others connect to it.

    Port 0 lets the server choose; `port` is then what it has chosen. With a `world_size` the server waits until so many
    have connected, unless `wait_for_workers` is False. With `multi_tenant` a process whose port is taken connects to
    who has it. Requests are not encrypted, and who reaches the port may send them. Errors: W008 where the address
    cannot be served, W007 where nobody serves it within the timeout.
    """

    def __init__(
        self,
        host_name: str,
        port: int,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: timedelta = timedelta(seconds=300),
        wait_for_workers: bool = True,
        multi_tenant: bool = False,
        master_listen_fd: int | None = None,
        use_libuv: bool = True,
    ) -> None:
        super().__init__(timeout)
        self._server: _Server | None = None
        self._connection: socket.socket | None = None
        self.host = host_name
        self.port = self._serve(port, multi_tenant) if is_master else port
        self.world_size = world_size
        self.is_master = is_master
        self._lock = threading.Lock()
        connection = self._connected()
        self._connection = connection
        self._send, self._file = connection.sendall, connection.makefile("rb")
        come = self.add(_COME, 1)
        if world_size is not None and wait_for_workers and is_master:
            self._await(come, world_size)

    def close(self) -> None:
        """Close the connection, and serve no more. Without it both last as long as the process."""
        if self._connection is not None:
            self._file.close()
            self._connection.close()
        if self._server is not None:
            self._server.end()

    def _serve(self, port: int, multi_tenant: bool) -> int:
        try:
            server = _Server((self.host, port))
        except OSError as cause:
            if multi_tenant:
                return port
            raise error("W008", f"TCPStore: {self.host}:{port} cannot be served: {cause.strerror}") from cause
        self._server = server
        return int(server.server_address[1])

    def _connected(self) -> socket.socket:
        limit = self._timeout.total_seconds()
        end = time.monotonic() + limit
        while True:
            try:
                made = socket.create_connection((self.host, self.port), max(limit, _PAUSE))
                made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return made
            except OSError as cause:
                if time.monotonic() > end:
                    message = f"TCPStore: nobody serves {self.host}:{self.port} within {limit:g} s"
                    raise error("W007", message, hint="one process has is_master=True") from cause
            time.sleep(_PAUSE)

    def _await(self, come: int, world_size: int) -> None:
        end = time.monotonic() + self._timeout.total_seconds()
        while come < world_size:
            if time.monotonic() > end:
                self.close()
                raise error("W007", f"TCPStore: {come} of {world_size} have connected to {self.host}:{self.port}")
            self._give_way()
            time.sleep(_PAUSE)
            come = int(self.get(_COME))

    def _try(self, operation: str, *args: Any) -> Any:
        request = lazy.json.dumps([operation, *map(to_json, args)]).encode() + b"\n"
        try:
            with self._lock:
                self._send(request)
                answer = self._file.readline()
        except OSError as cause:
            raise error("W005", f"TCPStore: {self.host}:{self.port} is not served any more") from cause
        if not answer:
            raise error("W005", f"TCPStore: {self.host}:{self.port} is not served any more")
        found: Any = lazy.json.loads(answer)
        if "code" in found:
            raise error(found["code"], found["message"])
        return from_json(found["result"])
