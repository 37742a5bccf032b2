"""A process that does what may crash or hang, and the parent's side of it: questions and answers are lines of JSON."""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any

PATIENCE_SECONDS = 40.0
_MEMORY_BYTES = 14 << 30


class Child:
    """A process that runs `python -m module`, started again after it died; one question at a time."""

    def __init__(self, module: str, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self.module = module
        self.patience_seconds = patience_seconds
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, question: Mapping[str, Any]) -> dict[str, str]:
        """The answer: `kind` and `detail`. A crash and a hang are answers too."""
        process = self._process
        if process is None:
            command = [sys.executable, "-X", "faulthandler", "-m", self.module]
            process = self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            assert process.stdout is not None
            process.stdout.readline()  # it says that it is ready: imports take what they take
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(question).encode() + b"\n")
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], self.patience_seconds)
        line = process.stdout.readline() if ready else b""
        if line:
            return json.loads(line)
        if ready:
            return {"kind": "crash", "detail": f"the process ended with {self.close()}"}
        process.send_signal(signal.SIGABRT)  # faulthandler prints where it was
        self.close()
        return {"kind": "hang", "detail": f"no answer within {self.patience_seconds:.0f} s"}

    def close(self) -> int | None:
        """Ends the process; its exit status."""
        process, self._process = self._process, None
        if process is None:
            return None
        if process.stdin is not None:
            process.stdin.close()
        if process.stdout is not None:
            process.stdout.close()
        try:
            return process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()


def serve(answer: Callable[[dict[str, Any]], Mapping[str, str]]) -> None:
    """The child's side: answers questions until there are no more. Whatever else prints goes to standard error."""
    warnings.simplefilter("ignore")
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, hard))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    answers.write("ready\n")
    answers.flush()
    for line in sys.stdin:
        answers.write(json.dumps(answer(json.loads(line))) + "\n")
        answers.flush()
