"""Less memory for more work: functions whose intermediate results are computed again in the backward pass."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

from rushlight.eager.autograd.history import requires
from rushlight.eager.boundary import checked
from rushlight.eager.dispatch import STATE, call_user
from rushlight.eager.handle import Handle
from rushlight.eager.interception import TorchDispatchMode
from rushlight.eager.override.operator_function import OperatorFunction
from rushlight.support.errors import AutogradError, RushlightError, fail, require
from rushlight.support.peer_names import absent_name
from rushlight.utils.checkpoint.recomputation import Recomputation, Surroundings
from rushlight.utils.checkpoint.reentrant import CheckpointFunction, detach_variable
from rushlight.utils.checkpoint.selective import (
    CheckpointPolicy,
    SelectiveCheckpointContext,
    SelectiveMode,
    create_selective_checkpoint_contexts,
)

__all__ = [
    "CheckpointError",
    "CheckpointFunction",
    "CheckpointPolicy",
    "SelectiveCheckpointContext",
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "detach_variable",
    "get_device_states",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
    "set_device_states",
]

CheckpointError = AutogradError
Contexts = tuple[AbstractContextManager[object], AbstractContextManager[object]]
Step = Callable[..., object]
_debug: list[bool | None] = [None]
_early_stop: list[bool | None] = [None]


def noop_context_fn() -> Contexts:
    """Return two scopes that change nothing."""
    return nullcontext(), nullcontext()


@contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Generator[None]:
    """A scope in which `debug` of every checkpoint is this; None leaves it to the calls."""
    before, _debug[0] = _debug[0], enabled
    try:
        yield
    finally:
        _debug[0] = before


@contextmanager
def set_checkpoint_early_stop(enable: bool) -> Generator[None]:
    """A scope in which `early_stop` of every checkpoint is this, whatever the calls say."""
    before, _early_stop[0] = _early_stop[0], enable
    try:
        yield
    finally:
        _early_stop[0] = before


class OperatorLog(TorchDispatchMode):
    """Writes down which operators are called."""

    def __init__(self, within: AbstractContextManager[object]) -> None:
        self.lines: list[str] = []
        self._within = within

    def __torch_dispatch__(
        self,
        func: OperatorFunction,
        types: object,
        args: Sequence[object] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        """Notes one call."""
        shown = [str(arg.form.type) for arg in args if isinstance(arg, Handle)]
        self.lines.append(f"{func.__name__}({', '.join(shown)})")
        return func(*args, **(kwargs or {}))

    def __enter__(self) -> OperatorLog:
        self.lines.clear()
        self._within.__enter__()
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._within.__exit__(*error)


@checked
def checkpoint(
    function: Callable[..., object],
    *args: object,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], Contexts] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """Call a function whose intermediate results are not kept: the backward pass calls it again.

    `use_reentrant=False` records the call as usual, and its parts may be differentiated in any way. With `True`, which
    PyTorch takes where nothing is said, the call is one step of the tape: an argument must require gradients, and only
    `backward()` without `inputs` works. `preserve_rng_state=False` draws new random numbers in the second call.
    `context_fn` returns scopes for the two calls. `determinism_check` compares shapes and dtypes of what they save
    ("default"), or nothing ("none"); `debug` adds the operators of both calls to that error. With `early_stop` the
    second call ends when all that is needed is there.

    A function that is compiled around this call keeps what its own partition of memory and work says.

    ```python
    y = checkpoint(block, x, use_reentrant=False)
    ```
    """
    preserve = kwargs.pop("preserve_rng_state", True)
    require(determinism_check in ("default", "none"), "A002", 'checkpoint: determinism_check is "default" or "none"')
    if use_reentrant is None or use_reentrant:
        plain = context_fn is noop_context_fn and not debug
        require(plain, "A002", "checkpoint: context_fn and debug need use_reentrant=False")
        require(not kwargs, "A002", f"checkpoint: with use_reentrant=True there is no argument {', '.join(kwargs)}")
        if STATE.tracer is not None:
            return call_user(function, *args)
        return CheckpointFunction.apply(function, preserve, *args)
    first, second = call_user(context_fn)
    if STATE.tracer is not None:
        with nullcontext() if isinstance(first, SelectiveMode) else first:
            return call_user(function, *args, **kwargs)
    if not STATE.grad:
        return call_user(function, *args, **kwargs)
    logs: tuple[OperatorLog, ...] = ()
    if debug if _debug[0] is None else _debug[0]:
        first, second = logs = OperatorLog(first), OperatorLog(second)
    again = Recomputation(
        function,
        (args, kwargs),
        Surroundings(preserve),
        checks=determinism_check == "default",
        early=early_stop if _early_stop[0] is None else _early_stop[0],
        within=second,
        explain=partial(_explain, logs),
    )
    with again.hooks(), first:
        return call_user(function, *args, **kwargs)
    return fail("A002", "checkpoint: the scope of the first call must not suppress errors")


def _explain(logs: Sequence[OperatorLog], error: RushlightError) -> None:
    for name, log in zip(("first", "second"), logs, strict=False):
        error.add_note("\n    ".join([f"  operators of the {name} run:", *log.lines]))


@checked
def checkpoint_sequential(
    functions: Iterable[Step],
    segments: int,
    input: object,
    use_reentrant: bool | None = None,
    **kwargs: object,
) -> Any:
    """Call functions, or the modules of a Sequential, one after the other, in checkpointed segments.

    The last segment is not checkpointed: its backward pass comes at once.
    """
    preserve = kwargs.pop("preserve_rng_state", True)
    require(not kwargs, "A002", f"checkpoint_sequential: there is no argument {', '.join(kwargs)}")
    children = getattr(functions, "children", None)
    steps = list(functions if children is None else children())
    size = len(steps) // segments
    require(size > 0, "A002", f"checkpoint_sequential: {segments} segments of {len(steps)} functions")
    for start in range(0, size * (segments - 1), size):
        segment = _one_after_the_other(steps[start : start + size])
        input = checkpoint(segment, input, use_reentrant=use_reentrant, preserve_rng_state=preserve)
    return _one_after_the_other(steps[size * (segments - 1) :])(input)


def _one_after_the_other(steps: Sequence[Step]) -> Step:
    def run(value: object) -> object:
        for step in steps:
            value = call_user(step, value)
        return value

    return run


def check_backward_validity(inputs: Iterable[object]) -> bool:
    """Return whether any of the arguments requires gradients, as the reentrant form needs."""
    return any(isinstance(input_, Handle) and requires(input_) for input_ in inputs)


def get_device_states(*args: object) -> tuple[list[int], list[object]]:
    """Return the random states of other devices that tensors are on: there are none."""
    return [], []


def set_device_states(devices: Sequence[int], states: Sequence[object], *, device_type: str | None = None) -> None:
    """Continue from random states of other devices; `get_device_states` has none."""
    require(len(devices) == len(states) == 0, "A006", "set_device_states: other devices have no state", devices=devices)


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
