"""Whether operators are recorded: no_grad, enable_grad, set_grad_enabled, inference_mode."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator
from typing import Any, TypeVar

from rushlight.eager.boundary import checked
from rushlight.eager.dispatch import STATE, UserScope
from rushlight.support.errors import require
from rushlight.support.interpreted import interpreted

F = TypeVar("F", bound=Callable[..., Any])


class GradMode(UserScope):
    """A scope of recording or not; also a decorator of functions and generators."""

    __slots__ = ()

    def __call__(self, function: F) -> F:
        """The function, run in this scope."""
        require(callable(function), "A001", f"{type(self).__name__}: a function is expected", given=function)
        if inspect.isgeneratorfunction(function):

            @interpreted
            @functools.wraps(function)
            def generate(*args: object, **kwargs: object) -> Generator[Any, Any, Any]:
                generator = function(*args, **kwargs)
                step: Callable[[], Any] = functools.partial(next, generator)
                while True:
                    with self:
                        try:
                            value = step()
                        except StopIteration as end:
                            return end.value
                    try:
                        step = functools.partial(generator.send, (yield value))
                    except GeneratorExit:
                        with self:
                            generator.close()
                        raise
                    except BaseException as error:  # noqa: BLE001 - whatever is thrown goes to the generator
                        step = functools.partial(generator.throw, error)

            return generate  # pyright: ignore[reportReturnType] - of the same signature

        @interpreted
        @functools.wraps(function)
        def run(*args: object, **kwargs: object) -> Any:
            with self:
                return function(*args, **kwargs)

        return run  # pyright: ignore[reportReturnType] - of the same signature


class no_grad(GradMode):  # noqa: N801 - PyTorch's name
    """Operators in this scope are not recorded."""

    __slots__ = ()

    def __new__(cls, function: Any = None) -> Any:
        """With a function, as the bare decorator `@no_grad`."""
        self = super().__new__(cls)
        if function is not None:
            self.__init__()
            return self(function)
        return self

    def __init__(self, function: object = None) -> None:
        super().__init__(grad=False, silenced=True)


class enable_grad(GradMode):  # noqa: N801 - PyTorch's name
    """Operators in this scope are recorded, also within no_grad."""

    __slots__ = ()

    def __new__(cls, function: Any = None) -> Any:
        """With a function, as the bare decorator `@enable_grad`."""
        self = super().__new__(cls)
        if function is not None:
            self.__init__()
            return self(function)
        return self

    def __init__(self, function: object = None) -> None:
        super().__init__(grad=True, silenced=False)


class set_grad_enabled(GradMode):  # noqa: N801 - PyTorch's name
    """Turns recording on or off: at once when called, until the end of the scope when used in `with`."""

    __slots__ = ("_called",)

    @checked
    def __init__(self, mode: bool) -> None:
        super().__init__(grad=bool(mode), silenced=not mode)
        self._called = STATE.grad
        STATE.grad, STATE.silenced = bool(mode), not mode

    def __call__(self, function: F) -> F:
        """The function, run in this scope; what making the scope has set is undone."""
        STATE.grad, STATE.silenced = self._called, not self._called
        return super().__call__(function)

    def __enter__(self) -> set_grad_enabled:
        now, STATE.grad = STATE.grad, self._called
        STATE.silenced = not STATE.grad
        super().__enter__()
        self._called = now
        return self


class inference_mode(GradMode):  # noqa: N801 - PyTorch's name
    """Like no_grad, for code whose results never meet autograd."""

    __slots__ = ()

    def __new__(cls, mode: object = True) -> Any:
        """With a function, as the bare decorator `@inference_mode`."""
        self = super().__new__(cls)
        if callable(mode):
            self.__init__()
            return self(mode)
        return self

    def __init__(self, mode: object = True) -> None:
        on = mode is not False
        super().__init__(**({"grad": False, "inference": True} if on else {"inference": False}))


def is_grad_enabled() -> bool:
    """Whether operators are recorded now."""
    return STATE.grad


def is_inference_mode_enabled() -> bool:
    """Whether inference mode is on."""
    return STATE.inference
