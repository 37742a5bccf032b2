"""A store in a file that processes share."""

from __future__ import annotations

import fcntl
import os
from typing import Any

from rushlight.data.source import Path
from rushlight.distributed.stores.store import Store
from rushlight.distributed.stores.table import OPERATIONS, READERS, WAITS, Table, from_json, to_json
from rushlight.support import lazy
from rushlight.support.errors import RushlightError, error, fail


class FileStore(Store):
    """A store in a file, of all processes that name it. What it holds stays there when they end.

    Errors: P003 where the file cannot be written, P002 where it holds something else.
    """

    def __init__(self, file_name: Path, world_size: int = -1) -> None:
        super().__init__()
        self.path = os.fspath(file_name)
        self.world_size = world_size
        self._try("keys")

    def delete_key(self, key: str) -> bool:
        """Fail with A006, as PyTorch's does: a file keeps its keys."""
        fail("A006", "FileStore: a file keeps its keys", hint="HashStore and TCPStore remove them", key=key)

    def _try(self, operation: str, *args: Any) -> Any:
        try:
            with open(self.path, "a+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                file.seek(0)
                table = self._read(file.read())
                result = OPERATIONS[operation](table, *args)
                if operation not in READERS and result != WAITS:
                    text = {"values": {key: to_json(value) for key, value in table.values.items()}}
                    queues = {key: to_json(queue) for key, queue in table.queues.items()}
                    file.truncate(0)
                    file.write(lazy.json.dumps({**text, "queues": queues}).encode())
                return result
        except OSError as cause:
            raise error("P003", f"FileStore: {self.path} cannot be written: {cause.strerror}") from cause

    def _read(self, text: bytes) -> Table:
        if not text:
            return Table()
        try:
            found: Any = lazy.json.loads(text)
            values, queues = found["values"], found["queues"]
            read: Any = from_json
            return Table(
                {key: read(value) for key, value in values.items()}, {key: read(one) for key, one in queues.items()}
            )
        except RushlightError:
            raise
        except (ValueError, KeyError, TypeError, AttributeError) as cause:
            raise error("P002", f"FileStore: {self.path} is no store") from cause
