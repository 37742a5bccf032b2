"""Logs: one logger per topic, on standard error, quiet unless asked for.

`RUSHLIGHT_LOG=guards,fusion` turns topics on. They are loggers of the standard library named `rushlight.<topic>`, so a
program may also set their level and handlers itself.
"""

import sys
from types import ModuleType
from typing import cast

from rushlight.support import settings
from rushlight.support.errors import fail
from rushlight.support.names import did_you_mean
from rushlight.support.setting_kinds import LOG_TOPICS


class Topic:
    """One topic of the log: `if FUSION.enabled: FUSION.write("fused %s into %s", a, b)`."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def enabled(self) -> bool:
        """Return whether a topic is on: ask before computing an expensive message."""
        if self.name in settings.get().log:
            return True
        # A program that set the level of a logger has imported `logging`; without it nobody can be listening.
        return "logging" in sys.modules and cast(bool, _output().enabled(self.name))

    def write(self, text: str, *args: object) -> None:
        """Log `text % args` if the topic is enabled."""
        if self.enabled:
            _output().write(self.name, text, args, asked=self.name in settings.get().log)


def _output() -> ModuleType:
    # A door: `logging` takes as long to import as this whole floor, and most programs never log.
    from rushlight.support import log_output

    return log_output


GUARDS, FUSION, CODE, CACHE, RECOMPILE, BREAK, MEMORY, DISPATCH, TUNE = map(Topic, LOG_TOPICS)
_TOPICS = {one.name: one for one in (GUARDS, FUSION, CODE, CACHE, RECOMPILE, BREAK, MEMORY, DISPATCH, TUNE)}


def topic(name: str) -> Topic:
    """Return the topic of this name; an unknown one is an error with the nearest name."""
    registered = _TOPICS.get(name)
    if registered is None:
        fail("T003", f"log: {name} is not a topic", hint=did_you_mean(name, _TOPICS))
    return registered
