"""How many node tests tinygrad passes: `python -m tools.onnx_nodes.tinygrad_peer [TEXT]`, where it is installed.

Its device is the emulator of its own that needs no compiler (`DEV=PYTHON`), unless the environment names another.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
from collections.abc import Sequence
from importlib import metadata
from typing import Any

import numpy as np

from tools.onnx_nodes.agreeing import agree, array_of, collected

_SECONDS = 10
"""How much processor time a test may take."""


def passes(case: Any, runner: Any, tensor: Any) -> bool:
    """Whether tinygrad gives what a test says; an error is a failure, whatever it is."""
    signal.setitimer(signal.ITIMER_VIRTUAL, _SECONDS)
    try:
        for inputs, outputs in case.data_sets:
            run = runner(tensor(case.model.SerializeToString()))
            names = [given.name for given in case.model.graph.input]
            results = run(dict(zip(names, array_of(list(inputs)), strict=False)))
            if not agree([_array(result) for result in results.values()], array_of(list(outputs)), case):
                return False
    except (Exception, TimeoutError):  # noqa: BLE001 - the peer's errors are its own
        return False
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return True


def _array(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_array(part) for part in value]
    return None if value is None else np.asarray(value.numpy())


def _expired(*signalled: object) -> None:
    raise TimeoutError


def main(arguments: Sequence[str]) -> None:
    """Ask the tests whose names have a text, and print one line."""
    os.environ.setdefault("DEV", "PYTHON")
    runner, tensor = importlib.import_module("tinygrad.nn.onnx").OnnxRunner, importlib.import_module("tinygrad").Tensor
    signal.signal(signal.SIGVTALRM, _expired)
    only = arguments[0] if arguments else ""
    chosen = [case for case in collected() if only in case.name]
    passed = 0
    for number, case in enumerate(chosen, 1):
        with contextlib.redirect_stdout(sys.stderr):
            passed += passes(case, runner, tensor)
        if number % 100 == 0:
            print(f"{passed} of {number}", file=sys.stderr, flush=True)
    name = f"tinygrad {metadata.version('tinygrad')} (device {os.environ['DEV']}, at most {_SECONDS} s for a test)"
    print(f"{name} passes {passed:,} of {len(chosen):,}.")


if __name__ == "__main__":
    main(sys.argv[1:])
