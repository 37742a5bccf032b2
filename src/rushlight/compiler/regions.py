"""`region`: functions and modules that are compiled each by itself, alone or within a compiled function."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

from rushlight.build.parts import PARTS
from rushlight.capture import compile
from rushlight.capture.api import SEARCHING, chosen_backend
from rushlight.capture.backends import Backend
from rushlight.capture.options import Options
from rushlight.eager.dispatch import STATE, call_user
from rushlight.support.errors import require

_NUMBERS = itertools.count(1)


def region(fn: Any = None, *, backend: str | Backend | None = None, mode: str | None = None) -> Any:
    """Makes a function or module a region: it is compiled by itself, with its own backend and mode. Also a decorator.

    A compiled function that calls regions is captured as a whole, with its gradients, and the partition chooses for the
    whole what is kept for the backward pass. Then the regions alone are compiled, each call of one by itself, forward
    and backward: nothing fuses beyond its ends, and no memory plan spans two. Regions that are alike share their code.
    What is outside of regions runs operator by operator. The bits are those of the whole.

    Called outside of a compiled function, a region is a compiled function. A module's `forward` is replaced.

    ```python
    for block in model.blocks:
        rl.compiler.region(block)
    step = rl.compile(model)
    ```
    """
    if fn is None:
        return functools.partial(region, backend=backend, mode=mode)
    if hasattr(type(fn), "forward"):
        fn.forward = region(fn.forward, backend=backend, mode=mode)
        return fn
    backend = chosen_backend(backend)
    require(callable(fn), "A002", "region: a function or a module is expected", given=type(fn).__name__)
    return _entering(fn, compile(fn, backend=backend, mode=mode), Options(True, backend, mode in SEARCHING, False))


def _entering(function: Callable[..., object], compiled: Callable[..., object], options: Options) -> Any:
    number = next(_NUMBERS)
    PARTS[number] = options.compile_graph

    @functools.wraps(function)
    def entered(*args: object, **kwargs: object) -> object:
        tracer = STATE.tracer
        if tracer is None:
            return compiled(*args, **kwargs)
        within = tracer.enter_region(number)
        try:
            return call_user(function, *args, **kwargs)
        finally:
            tracer.leave_region(within)

    return entered
