"""The table of kernels: what is registered for an operator and a key, and what answers in the end.

Resolution depends on what is registered, never on the order of registration: for each key the operator's own kernel,
then its BACKENDS kernel, then its ALL kernel, then the key's fallback; a device key without any has no kernel, other
keys fall through.
"""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from rushlight.eager.dispatch.keys import BACKENDS, IMPLICIT, Alias, Key, bit
from rushlight.ops.record import GENERATION
from rushlight.runtime import backend as backends
from rushlight.support.errors import fail
from rushlight.support.frozen import frozen
from rushlight.term import Op

# A boxed kernel takes (op, active keys, operands, attributes); a plain one takes operands and named attributes.
Boxed = Callable[[Op, int, tuple[Any, ...], Mapping[str, Any]], object]


@frozen
class Kernel:
    """One registered kernel. A `leaf` never calls an operator, so that the thread's state need not change around it.

    `reenters`: its own key stays active while it runs. `prepared` is asked before it as a leaf is: for calls that need
    no state of a kernel.
    """

    function: Callable[..., object]
    boxed: bool = False
    leaf: bool = False
    reenters: bool = False
    prepared: Boxed | None = None


class Registration:
    """A kernel in the table; `remove()` takes it out again."""

    __slots__ = ("_kernel", "_slot")

    def __init__(self, slot: tuple[Op | None, Key | Alias], kernel: Kernel) -> None:
        self._slot, self._kernel = slot, kernel

    def remove(self) -> None:
        """Undoes the registration; the second time nothing happens, whoever has the place by then."""
        with _lock:
            if _kernels.get(self._slot) is self._kernel:
                del _kernels[self._slot]
                _forget_tables()


def _fall_through(*args: object, **kwargs: object) -> NoReturn:
    raise AssertionError("fallthrough is not a kernel")


FALLTHROUGH = _fall_through
"""Register this where a key should let calls pass to the next key, whatever its fallback says."""

Preparation = Callable[[tuple[object, ...], int], tuple[object, ...]]  # of the operands and the active keys


@frozen
class Entries:
    """What answers an operator: `kernels` by key; `prepare`, if not None, completes the operands before anyone does."""

    kernels: tuple[Kernel | None, ...]
    prepare: Preparation | None


_lock = threading.RLock()
_kernels: dict[tuple[Op | None, Key | Alias], Kernel] = {}
_device_keys: dict[str, Key] = {"cpu": Key.CPU, "meta": Key.META}
_gone: dict[str, tuple[Key, Callable[[], backends.Backend | None]]] = {}
"""Of devices that were forgotten: tensors of theirs may still be there."""
tables: dict[Op, Entries] = {}
tables_generation = [0]
_preparations: list[Callable[[Op], Preparation | None]] = []


def _forget_tables() -> None:
    GENERATION[0] += 1


def _add(slot: tuple[Op | None, Key | Alias], kernel: Kernel) -> Registration:
    with _lock:
        if slot in _kernels:
            name = slot[0].name if slot[0] is not None else "the fallback"
            fail(
                "A004",
                f"{name}: there already is a kernel for {slot[1].name}",
                hint="remove() the other registration first",
            )
        _kernels[slot] = kernel
        _forget_tables()
    return Registration(slot, kernel)


def register(
    op: Op,
    key: Key | Alias,
    function: Callable[..., object],
    *,
    boxed: bool = False,
    leaf: bool = False,
    reenters: bool = False,
) -> Registration:
    """Says what answers `op` at `key`. `function` may return NotImplemented to let the next active key answer.

    While it runs its key is excluded, unless `reenters`. A4 when there already is a kernel in that place.
    """
    return _add((op, key), Kernel(function, boxed, leaf, reenters))


def register_fallback(
    key: Key, function: Boxed, *, leaf: bool = False, reenters: bool = False, prepared: Boxed | None = None
) -> Registration:
    """Says what answers at `key` for all operators without a kernel there."""
    return _add((None, key), Kernel(function, True, leaf, reenters, prepared))


def register_backend(device: str) -> Key:
    """The key of a kind of device, taken from the free ones when it is new."""
    with _lock:
        if device not in _device_keys:
            kept = _gone.pop(device, None)
            _device_keys[device] = _free_key(device) if kept is None else kept[0]
    return _device_keys[device]


def _free_key(device: str) -> Key:
    key = _unused_key()
    if key is None:
        _release_keys()
        key = _unused_key()
    if key is None:
        fail("A004", f"register_backend: all device keys are taken, {device} gets none", devices=list(_device_keys))
    return key


def _unused_key() -> Key | None:
    taken = {*_device_keys.values(), *[key for key, _ in _gone.values()]}
    return next((key for key in (Key.DEVICE_1, Key.DEVICE_2, Key.DEVICE_3) if key not in taken), None)


def _release_keys() -> None:
    """Gives back the keys of forgotten devices that have no memory any more, and takes out their kernels."""
    gc.collect()
    for name, (key, reference) in list(_gone.items()):
        backend = reference()
        if backend is None or not backend.memory.statistics().used_bytes:
            del _gone[name]
            for slot in [slot for slot in _kernels if slot[1] is key]:
                del _kernels[slot]
    _forget_tables()


def backend_key(device: str) -> Key:
    """The key of a kind of device; V001 when there is none. Its plug-in is loaded when it is first asked for."""
    key = _device_keys.get(device)
    if key is None:
        if backends.find(device) is None:
            names = dict.fromkeys((*_device_keys, *backends.installed()))
            fail("V001", f"there is no device {device}", hint="devices: " + ", ".join(names))
        key = register_backend(device)
        serve_device(key)
    return key


def device_named(key: Key) -> str:
    """The kind of device that has a key."""
    return next(name for name, other in _device_keys.items() if other is key)


_served: list[Boxed] = []


def set_device_kernel(function: Boxed) -> None:
    """Sets the fallback of each device whose plug-in is loaded."""
    _served[:] = [function]


def serve_device(key: Key) -> None:
    """Lets the devices' fallback answer at the key of a device that a plug-in brings."""
    if (None, key) not in _kernels:
        for function in _served:
            register_fallback(key, function, leaf=True)


def forget_device(device: str) -> None:
    """Takes back what `serve_device` did; the device keeps its key for when it comes again."""
    backend = backends.unregister(device)
    key = _device_keys.pop(device, None)
    if key is not None:
        _gone[device] = key, (lambda: None) if backend is None else weakref.ref(backend)
        _kernels.pop((None, key), None)
        _forget_tables()


def table_of(op: Op) -> Entries:
    """What answers `op`, by key; None where calls fall through, or where a device has no kernel."""
    if tables_generation[0] != GENERATION[0]:
        with _lock:
            tables.clear()
            tables_generation[0] = GENERATION[0]
    entries = tables.get(op)
    if entries is None:
        prepare = next((preparation for choose in _preparations if (preparation := choose(op)) is not None), None)
        entries = tables[op] = Entries(tuple([_resolve(op, key) for key in Key]), prepare)
    return entries


def register_preparation(choose: Callable[[Op], Preparation | None]) -> None:
    """Registers `choose(op)`, which may return a function that completes the operands when a call begins.

    Random operators get their state that way.
    """
    with _lock:
        _preparations.append(choose)
        _forget_tables()


def registered_kernel(op: Op | None, place: Key | Alias) -> Kernel | None:
    """What was registered for an operator, or for all (None), at a key or an alias."""
    return _kernels.get((op, place))


def _resolve(op: Op, key: Key) -> Kernel | None:
    kernel = _kernels.get((op, key))
    if kernel is None and BACKENDS & bit(key):
        kernel = _kernels.get((op, Alias.BACKENDS))
    # A kernel for all devices is below autograd: where there is one, autograd treats the operator as a unit.
    if kernel is None and IMPLICIT & bit(key) and not (key is Key.AUTOGRAD and (op, Alias.BACKENDS) in _kernels):
        kernel = _kernels.get((op, Alias.ALL))
    if kernel is None:
        kernel = _kernels.get((None, key))
    return None if kernel is None or kernel.function is FALLTHROUGH else kernel
