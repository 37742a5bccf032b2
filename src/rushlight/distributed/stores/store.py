"""Stores by PyTorch's names: what all can do, the one of a process, and one whose keys have a prefix."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from rushlight.distributed.group import current
from rushlight.distributed.stores.table import OPERATIONS, WAITS, Table
from rushlight.support.errors import fail, require

_TIMEOUT = timedelta(seconds=300)
_SHORTEST, _LONGEST = 0.0005, 0.02  # seconds between looks


class Store(ABC):
    """Keys and values that several ranks share. Values are bytes; a text is written as UTF-8.

    Who waits for a key does so for `timeout` at most. Errors: W007 after it, A001 for keys and values of other types,
    A002 for what is no number.
    """

    def __init__(self, timeout: timedelta = _TIMEOUT) -> None:
        self._timeout = timeout

    @property
    def timeout(self) -> timedelta:
        """How long calls wait for keys."""
        return self._timeout

    def set_timeout(self, timeout: timedelta) -> None:
        """Say how long calls wait for keys."""
        require(isinstance(timeout, timedelta), "A001", "set_timeout: a timedelta is expected", given=timeout)
        self._timeout = timeout

    @abstractmethod
    def _try(self, operation: str, *args: Any) -> Any:
        """Carry an operation out, at once and by itself; `WAITS` where it has to wait."""

    def _key(self, key: str) -> str:
        require(isinstance(key, str), "A001", f"{type(self).__name__}: a key is a text", given=key)
        return key

    def _do(self, operation: str, *args: Any, timeout: timedelta | None = None) -> Any:
        """Carry an operation out. Other ranks run while it waits."""
        limit = (self._timeout if timeout is None else timeout).total_seconds()
        end, pause = time.monotonic() + limit, _SHORTEST
        while (result := self._try(operation, *args)) == WAITS:
            if time.monotonic() > end:
                keys = ", ".join([str(key) for key in args][:5])
                fail("W007", f"{type(self).__name__}: {keys} did not come within {limit:g} s", call=operation)
            self._give_way()
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST)
        return result

    def _give_way(self) -> None:
        group = current()
        if group is not None:
            group.engine.give_way()

    def set(self, key: str, value: str | bytes) -> None:
        """Let a key have a value."""
        self._do("set", self._key(key), _bytes(value))

    def get(self, key: str) -> bytes:
        """Return a key's value, once it has one."""
        return self.multi_get([key])[0]

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """Return the values of keys, once all have one."""
        return self._do("get", *map(self._key, keys))

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        """Let keys have values."""
        fits = len(keys) == len(values)
        require(fits, "A002", "multi_set: a value for each key is expected", keys=len(keys), values=len(values))
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def append(self, key: str, value: str | bytes) -> None:
        """Put a value behind the one that a key has, if any."""
        self._do("append", self._key(key), _bytes(value))

    def add(self, key: str, amount: int) -> int:
        """Add to the number that a key has, 0 at first, and return the sum."""
        require(type(amount) is int, "A001", "add: a whole number is expected", given=amount)
        return self._do("add", self._key(key), amount)

    def compare_set(self, key: str, expected_value: str | bytes, desired_value: str | bytes) -> bytes:
        """Let a key have a value if it has what is expected, or nothing and "" is; return what it has then."""
        return self._do("compare_set", self._key(key), _bytes(expected_value), _bytes(desired_value))

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Wait until all keys are there."""
        self._do("wait", *map(self._key, keys), timeout=timeout)

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all keys are there."""
        return self._do("check", *map(self._key, keys))

    def delete_key(self, key: str) -> bool:
        """Remove a key; whether it was there."""
        return self._do("delete", self._key(key))

    def list_keys(self) -> list[str]:
        """Return the keys."""
        return self._do("keys")

    def num_keys(self) -> int:
        """Return how many keys there are."""
        return len(self.list_keys())

    def queue_push(self, key: str, value: str | bytes) -> None:
        """Put a value at the end of a queue."""
        self._do("push", self._key(key), _bytes(value))

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        """Take the first value of a queue. Without `block` an empty one is error W007 at once."""
        return self._do("pop", self._key(key), timeout=None if block else timedelta(0))

    def queue_len(self, key: str) -> int:
        """Return how many values a queue has."""
        return self._do("length", self._key(key))

    def barrier(self, key: str, world_size: int, timeout: timedelta | None = None) -> None:
        """Wait until so many have called this with the same key."""
        if self.add(f"{key}/come", 1) == world_size:
            self.set(f"{key}/go", "")
        self.wait([f"{key}/go"], timeout)

    def has_extended_api(self) -> bool:
        """Return True: it can append, and set and get several keys."""
        return True

    def clone(self) -> Store:
        """Return the store, which threads may share."""
        return self


def _bytes(value: str | bytes) -> bytes:
    require(isinstance(value, (str, bytes)), "A001", "store: a value is text or bytes", given=value)
    return value.encode() if isinstance(value, str) else value


class HashStore(Store):
    """A store of one process, whose threads share it."""

    def __init__(self) -> None:
        super().__init__()
        self._table = Table()
        self._lock = threading.Lock()

    def _try(self, operation: str, *args: Any) -> Any:
        with self._lock:
            return OPERATIONS[operation](self._table, *args)


class PrefixStore(Store):
    """A store of another one's keys that begin with a prefix and "/"."""

    def __init__(self, prefix: str, store: Store) -> None:
        require(isinstance(store, Store), "A001", "PrefixStore: a store is expected", given=store)
        super().__init__(store.timeout)
        self.prefix = prefix
        self.underlying_store = store

    def set_timeout(self, timeout: timedelta) -> None:
        """Say how long calls wait for keys, of the other store too."""
        super().set_timeout(timeout)
        self.underlying_store.set_timeout(timeout)

    def list_keys(self) -> list[str]:
        """Return the keys, without the prefix."""
        start = f"{self.prefix}/"
        return [key[len(start) :] for key in self.underlying_store.list_keys() if key.startswith(start)]

    def _key(self, key: str) -> str:
        return self.underlying_store._key(f"{self.prefix}/{super()._key(key)}")

    def _try(self, operation: str, *args: Any) -> Any:
        return self.underlying_store._try(operation, *args)
