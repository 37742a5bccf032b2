"""Looking for gradients that are NaN, at the cost of a look at each."""

from __future__ import annotations

from types import TracebackType

from rushlight.eager.boundary import checked
from rushlight.eager.dispatch import STATE, Scope

__all__ = [
    "detect_anomaly",
    "is_anomaly_check_nan_enabled",
    "is_anomaly_enabled",
    "set_anomaly_enabled",
    "set_detect_anomaly",
]


class detect_anomaly(Scope):  # noqa: N801 - PyTorch's name
    """A scope in which a gradient of NaN is error G021, which names the forward pass's line.

    ```python
    with rl.autograd.detect_anomaly():
        loss(model(x)).backward()
    ```
    """

    __slots__ = ()

    @checked
    def __init__(self, check_nan: bool = True) -> None:
        super().__init__(anomaly=True, anomaly_nan=check_nan)


class set_detect_anomaly:  # noqa: N801 - PyTorch's name
    """Turns anomaly mode on or off: at once when called, until the end of the scope when used in `with`."""

    __slots__ = ("_before",)

    @checked
    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._before = STATE.anomaly, STATE.anomaly_nan
        set_anomaly_enabled(mode, check_nan)

    def __enter__(self) -> None:
        """The mode is on since the call."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        STATE.anomaly, STATE.anomaly_nan = self._before


@checked
def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """Turn anomaly mode on or off in this thread."""
    STATE.anomaly, STATE.anomaly_nan = mode, check_nan


def is_anomaly_enabled() -> bool:
    """Whether anomaly mode is on."""
    return STATE.anomaly


def is_anomaly_check_nan_enabled() -> bool:
    """Whether anomaly mode refuses NaN."""
    return STATE.anomaly_nan
