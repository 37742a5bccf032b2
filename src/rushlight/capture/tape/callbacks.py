"""Functions of the program that are told when something is compiled."""

from __future__ import annotations

import enum
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

from rushlight.support.errors import require


class CallbackTrigger(enum.Enum):
    """What is compiled."""

    COMPILED_AUTOGRAD = 1


class CallbackArgs(NamedTuple):
    """What a callback is told: what is compiled, and which in number."""

    callback_trigger: CallbackTrigger
    compile_id: str


Callback = Callable[[CallbackArgs], object]
F = TypeVar("F", bound=Callback)


class CallbackHandler:
    """Callbacks for the start and the end of compilations, in the order of registration."""

    def __init__(self) -> None:
        self._starts: list[Callback] = []
        self._ends: list[Callback] = []
        self._lock = threading.RLock()

    def register_start_callback(self, callback: F) -> F:
        """Has a function called before something is compiled; also a decorator."""
        return self._registered(self._starts, callback)

    def register_end_callback(self, callback: F) -> F:
        """Has a function called when something has been compiled, or has failed; also a decorator."""
        return self._registered(self._ends, callback)

    def clear(self) -> None:
        """Forgets all callbacks."""
        with self._lock:
            self._starts.clear()
            self._ends.clear()

    @contextmanager
    def compiling(self, args: CallbackArgs) -> Generator[None]:
        """While inside, something is compiled."""
        for callback in tuple(self._starts):
            callback(args)
        try:
            yield
        finally:
            for callback in tuple(self._ends):
                callback(args)

    def _registered(self, callbacks: list[Callback], callback: F) -> F:
        require(callable(callback), "A001", "a callback must be a function", callback=callback)
        callbacks.append(callback)
        return callback


callback_handler = CallbackHandler()
on_compile_start = callback_handler.register_start_callback
on_compile_end = callback_handler.register_end_callback
