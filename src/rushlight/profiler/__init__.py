"""Where the time of a program goes: operators, backward steps, the stages of compiled calls, and parts that it names.

```python
import rushlight as rl

with rl.profiler.profile(record_shapes=True, profile_memory=True) as prof:
    with rl.profiler.record_function("forward"):
        rl.ones(8, 8) @ rl.ones(8, 8)
print(prof.key_averages().table(sort_by="self_cpu_time_total", row_limit=5))
```

The names are those of `torch.profiler`. Where no profile is on, nothing is measured and no call is longer for it.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterable
from enum import Enum

from rushlight.autograd.profiler import EventList, FunctionEvent, Session, kineto_available, record_function
from rushlight.eager.boundary import checked
from rushlight.support.errors import fail, require
from rushlight.support.peer_names import absent_name

__all__ = [
    "EventList",
    "FunctionEvent",
    "ProfilerAction",
    "ProfilerActivity",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]


class ProfilerActivity(Enum):
    """What may be measured. There is a CPU here; who asks for more as well gets what there is."""

    CPU = 0
    CUDA = 1
    XPU = 2
    MTIA = 3
    HPU = 4
    PrivateUse1 = 5


class ProfilerAction(Enum):
    """What a profile does in a step: nothing, run without keeping, measure, or measure and hand over at its end."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def supported_activities() -> set[ProfilerActivity]:
    """Return what can be measured here."""
    return {ProfilerActivity.CPU}


@checked
def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """Return what to do in each step: skip the first ones, then cycles that wait, warm up and measure.

    After `repeat` cycles nothing is measured; 0 has them go on. With `skip_first_wait` the first cycle does not wait.
    """
    valid = wait >= 0 and warmup >= 0 and active > 0 and repeat >= 0 and skip_first >= 0
    require(valid, "A002", "schedule: steps are at least 0, and one is active", wait=wait, warmup=warmup, active=active)

    def action(step: int) -> ProfilerAction:
        step -= skip_first
        if step < 0:
            return ProfilerAction.NONE
        if skip_first_wait:
            step += wait
        cycle, at = divmod(step, wait + warmup + active)
        if (repeat and cycle >= repeat) or at < wait:
            return ProfilerAction.NONE
        if at < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD_AND_SAVE if at == wait + warmup + active - 1 else ProfilerAction.RECORD

    return action


@checked
def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[profile], None]:
    """Return what writes each trace to a folder, under a name of its own: for `on_trace_ready`."""
    require(not use_gzip, "A006", "tensorboard_trace_handler: traces are not compressed")

    def write(done: profile) -> None:
        os.makedirs(dir_name, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        done.export_chrome_trace(os.path.join(dir_name, f"{worker}.{time.time_ns()}.pt.trace.json"))

    return write


_MEASURES = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


class profile:  # noqa: N801 - PyTorch's name
    """Measures what this thread runs in the scope, or between `start()` and `stop()`.

    With a `schedule` the program calls `step()` behind each of its steps, and `on_trace_ready` is called with the
    profile at the end of each cycle. Counts of operations and of modules are error A006.
    """

    @checked
    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[profile], object] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: object = None,
        execution_trace_observer: object = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
    ) -> None:
        given = supported_activities() if activities is None else set(activities)
        require(ProfilerActivity.CPU in given, "A006", "profile: nothing but the CPU is measured", activities=given)
        require(not (with_flops or with_modules), "A006", "profile: neither operations nor modules are counted")
        require(execution_trace_observer is None, "A006", "profile: there are no observers of executions")
        self.step_num = 0
        self._schedule = schedule
        self._ready = on_trace_ready
        self._keeps = acc_events
        self._options = {"shapes": record_shapes, "stacks": with_stack, "memory": profile_memory}
        self._metadata: dict[str, str] = {}
        self._session: Session | None = None
        self._done: list[Session] = []

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _action(self, step: int) -> ProfilerAction:
        return ProfilerAction.RECORD if self._schedule is None else self._schedule(step)

    def start(self) -> None:
        """Begin with step 0."""
        if self._session is not None:
            fail("A004", "profile: it has been started already", hint="stop() it first, or make another one")
        self._enter_step()

    def _enter_step(self) -> None:
        if self._session is None and self._action(self.step_num) in _MEASURES:
            self._session = Session(**self._options)
            self._session.begin()

    def step(self) -> None:
        """End a step of the program and begin the next one."""
        ended = self._action(self.step_num)
        self.step_num += 1
        if ended is ProfilerAction.RECORD_AND_SAVE or self._action(self.step_num) not in _MEASURES:
            self.stop()
        self._enter_step()

    def stop(self) -> None:
        """Measure nothing more, and hand over what has not been."""
        session, self._session = self._session, None
        if session is not None:
            session.end()
            self._done = [*self._done, session] if self._keeps else [session]
            if self._ready is not None:
                self._ready(self)

    def events(self) -> EventList:
        """Return what was measured in the last cycle, or with `acc_events` in all, as it ended."""
        sessions = self._done if self._session is None else [*self._done, self._session]
        return EventList([event for session in sessions for event in session.events()])

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> EventList:
        """Return the sum over parts of one name, the longest first."""
        return self.events().key_averages(group_by_input_shape, group_by_stack_n)

    def export_chrome_trace(self, path: str) -> None:
        """Write what was measured for a browser's viewer of traces."""
        self.events().export_chrome_trace(path)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write the stacks with their times, for flame graphs; stacks are kept with `with_stack`."""
        self.events().export_stacks(path, metric)

    def add_metadata(self, key: str, value: str) -> None:
        """Keep a text with the profile."""
        self._metadata[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """Keep a text of JSON with the profile."""
        self._metadata[key] = value


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
