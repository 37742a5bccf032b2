"""Who is measured: Rushlight in this process, and peers in interpreters of their own."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import rushlight as rl
from rushlight.bench import peer
from rushlight.bench.cases import CASES, Work
from rushlight.bench.timing import time_calls
from rushlight.support.errors import error, fail

WARM_UP_CALLS = 3


class Rushlight:
    """This process."""

    name = "rushlight"

    def __init__(self) -> None:
        self.works: dict[str, Work] = {}

    def prepare(self, case: str, threads: int) -> None:
        """See `Contestant`."""
        rl.set_num_threads(threads)
        self.works[case] = CASES[case].prepare()
        for _ in range(WARM_UP_CALLS):
            self.works[case]()

    def sample(self, case: str, repeat: int) -> float:
        """See `Contestant`."""
        return time_calls(self.works[case], repeat)


class Peer:
    """Another framework in another interpreter, which runs the same cases and is asked for samples over pipes."""

    def __init__(self, python: Path) -> None:
        command = [str(python), peer.__file__]
        try:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        except OSError as cause:
            raise error("A002", f"bench: {python} cannot be run: {cause.strerror}") from cause
        hello = self._ask({"do": "hello"})
        self.name: str = hello["name"]
        self.version: str = hello["version"]

    def prepare(self, case: str, threads: int) -> None:
        """See `Contestant`."""
        self._ask({"do": "prepare", "case": case, "threads": threads, "calls": WARM_UP_CALLS})

    def sample(self, case: str, repeat: int) -> float:
        """See `Contestant`."""
        return self._ask({"do": "sample", "case": case, "repeat": repeat})["seconds"]

    def close(self) -> None:
        """Ends the peer's process."""
        self._process.communicate()

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        sender, receiver = self._process.stdin, self._process.stdout
        assert sender is not None and receiver is not None
        try:
            sender.write(json.dumps(question) + "\n")
            sender.flush()
            answer = receiver.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            self.close()
            fail("A002", "bench: the peer's interpreter ended", hint="it needs torch installed", asked=question)
        return json.loads(answer)
