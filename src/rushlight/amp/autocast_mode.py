"""autocast: regions in which products run in a lower precision, and losses in float32."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TypeVar

from rushlight.eager import autocast as setting
from rushlight.eager.arguments import element_type
from rushlight.eager.boundary import checked
from rushlight.eager.dispatch import STATE
from rushlight.eager.pytree import map_tree
from rushlight.eager.tensor import Tensor
from rushlight.ir.dtype import DType, bfloat16, float16, float64
from rushlight.support.errors import fail, require, warn
from rushlight.support.interpreted import interpreted

__all__ = ["autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]

F = TypeVar("F", bound=Callable[..., Any])
_ELSEWHERE = ("cuda", "hpu", "ipu", "maia", "mps", "mtia", "xla", "xpu")  # PyTorch's devices that are not here
_CPU_DTYPES = (bfloat16, float16)


def is_autocast_available(device_type: str) -> bool:
    """Return whether autocast exists for a kind of device, as in PyTorch: also where there is no such device."""
    return device_type == "cpu" or device_type in _ELSEWHERE


class autocast:  # noqa: N801 - PyTorch's name
    """A region in which operators choose the dtype of their operands; also a decorator.

    On the CPU matrix products, convolutions and attention take theirs to `dtype` (bfloat16, or float16), losses to
    float32, and all others leave them as they are. Regions nest, and one with `enabled=False` has none of this. A
    weight is cast once in a region unless `cache_enabled=False`. For a device that is not here the region is off,
    with a warning.

    >>> with rl.autocast("cpu", dtype=rl.bfloat16):
    ...     loss = model(x)
    """

    def __init__(
        self,
        device_type: str,
        dtype: DType | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        text = isinstance(device_type, str)
        require(text, "A001", f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        available = is_autocast_available(device_type)
        require(available, "A004", f"User specified an unsupported autocast device_type '{device_type}'")
        now = setting.setting()
        fast = now.dtype(device_type) if dtype is None else element_type(dtype)
        assert fast is not None
        self.device = device_type
        self.fast_dtype = fast
        self._enabled = bool(enabled) and self._is_possible() if enabled else False
        self._cache_enabled = now.caches if cache_enabled is None else cache_enabled
        self._before: list[tuple[setting.Setting, int]] = []

    def _is_possible(self) -> bool:
        if self.device != "cpu":
            message = f"User provided device_type of '{self.device}', but there is none. Disabling"
            warn("A008", message, key=("autocast", self.device))
            return False
        if self.fast_dtype not in _CPU_DTYPES:
            message = "In CPU autocast, but the target dtype is not supported. Disabling autocast."
            warn("A008", message, key=("autocast", self.fast_dtype), hint="dtypes: bfloat16 and float16")
            return False
        return True

    def __enter__(self) -> Self:
        self._before.append((setting.setting(), STATE.excluded))
        setting.enter_region()
        STATE.excluded &= ~setting.AUTOCAST
        setting.change(
            device_type=self.device, enabled=self._enabled, dtype=self.fast_dtype, caches=self._cache_enabled
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        before, STATE.excluded = self._before.pop()
        setting.restore(before)
        setting.leave_region()

    def __call__(self, func: F) -> F:
        """Return the function, run in this region."""

        @interpreted
        @functools.wraps(func)
        def run(*args: object, **kwargs: object) -> Any:
            with self:
                return func(*args, **kwargs)

        return run  # pyright: ignore[reportReturnType] - of the same signature


def custom_fwd(
    fwd: Callable[..., Any] | None = None, *, device_type: str, cast_inputs: DType | None = None
) -> Callable[..., Any]:
    """Decorate a custom function's `forward`, under whose autocast its backward will run.

    With `cast_inputs` the floating-point inputs are cast to that dtype, and forward runs without autocast, where it
    would have run with it.
    """
    _require_device(device_type, "custom_fwd")
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def run(*args: Any, **kwargs: Any) -> Any:
        context, now = args[0], setting.setting()
        context._dtype = now.dtype(device_type)
        active = device_type in now.enabled
        context._fwd_used_autocast = active and cast_inputs is None
        if cast_inputs is None or not active:
            return fwd(*args, **kwargs)
        with autocast(device_type, enabled=False):
            given = [_cast(value, device_type, cast_inputs) for value in args[1:]]
            named = {name: _cast(value, device_type, cast_inputs) for name, value in kwargs.items()}
            return fwd(context, *given, **named)

    return run


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str) -> Callable[..., Any]:
    """Decorate the `backward` of a custom function: it runs under the autocast that its forward ran under."""
    _require_device(device_type, "custom_bwd")
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def run(*args: Any, **kwargs: Any) -> Any:
        context = args[0]
        with autocast(device_type, enabled=context._fwd_used_autocast, dtype=context._dtype):
            return bwd(*args, **kwargs)

    return run


def _require_device(device_type: object, name: str) -> None:
    text = isinstance(device_type, str)
    require(text, "A001", f"{name}: Expected `device_type` of type `str`, got: `{type(device_type)}`")


def _cast(tree: object, device_type: str, dtype: DType) -> Any:
    def leaf(value: object) -> object:
        if not isinstance(value, Tensor) or value.device.type != device_type:
            return value
        eligible = value.is_floating_point() and value.dtype is not float64
        return value.to(dtype) if eligible else value

    return map_tree(leaf, tree)


@checked
def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Return whether autocast is on for a kind of device; for "cuda" where none is named, as in PyTorch."""
    return ("cuda" if device_type is None else device_type) in setting.setting().enabled


@checked
def set_autocast_enabled(device_type: str | bool, enabled: bool | None = None) -> None:
    """Switch autocast on or off for a kind of device: `set_autocast_enabled("cpu", True)`. For "cuda" without one."""
    kind, on = (device_type, enabled) if isinstance(device_type, str) else ("cuda", device_type)
    if on is None:
        fail("A003", "set_autocast_enabled: takes a device type, and whether it is on")
    if on and kind != "cpu":
        fail("A006", f"set_autocast_enabled: there is no device {kind}")
    setting.change(device_type=kind, enabled=on)


@checked
def get_autocast_dtype(device_type: str) -> DType:
    """Return the dtype of autocast for a kind of device."""
    return setting.setting().dtype(device_type)


@checked
def set_autocast_dtype(device_type: str, dtype: DType) -> None:
    """Set the dtype of autocast for a kind of device."""
    setting.change(device_type=device_type, dtype=dtype)


def is_autocast_cpu_enabled() -> bool:
    """Return whether autocast is on for the CPU."""
    return is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """Switch autocast on or off for the CPU."""
    set_autocast_enabled("cpu", enabled)


def get_autocast_cpu_dtype() -> DType:
    """Return the dtype of autocast for the CPU."""
    return get_autocast_dtype("cpu")


def set_autocast_cpu_dtype(dtype: DType) -> None:
    """Set the dtype of autocast for the CPU."""
    set_autocast_dtype("cpu", dtype)


def get_autocast_gpu_dtype() -> DType:
    """Return the dtype of autocast for "cuda"."""
    return get_autocast_dtype("cuda")


def set_autocast_gpu_dtype(dtype: DType) -> None:
    """Set the dtype of autocast for "cuda"."""
    set_autocast_dtype("cuda", dtype)


def is_autocast_cache_enabled() -> bool:
    """Return whether weights are cast once in a region."""
    return setting.setting().caches


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Say whether weights are cast once in a region."""
    setting.change(caches=enabled)


def clear_autocast_cache() -> None:
    """Forget the weights that were cast in this region."""
    setting.forget_weights()


def autocast_increment_nesting() -> int:
    """Begin a region, and return how many there are within each other: what `autocast` does by itself."""
    return setting.enter_region()


def autocast_decrement_nesting() -> int:
    """End a region, and return how many are left: what `autocast` does by itself."""
    return setting.leave_region()
