"""What compiled functions do that have no graph for a call, as the program has it."""

from __future__ import annotations

from contextlib import ContextDecorator
from types import TracebackType
from typing import Any

from rushlight.support.errors import fail, require

STANCES = ("default", "force_eager", "eager_on_recompile", "fail_on_recompile")


class Stance:
    """What compiled functions do that have no graph for a call, in the whole process."""

    __slots__ = ("name",)

    def __init__(self) -> None:
        self.name = "default"

    def runs_eagerly(self, name: str, reason: str) -> bool:
        """Whether a call that would be traced runs uncompiled instead. C040 where it may not be traced."""
        if self.name == "fail_on_recompile":
            fail("C040", f"compile: {name} would be compiled", reason=reason)
        return self.name == "eager_on_recompile"


STANCE = Stance()


class set_stance(ContextDecorator):  # noqa: N801 - a function to who calls it
    """Decides what compiled functions do: from the call on, or in a `with` or a decorated function.

    "default" compiles what is new. "force_eager" runs every function uncompiled, "eager_on_recompile" those calls for
    which there is no graph yet; under "fail_on_recompile" such a call is error C040. Guards are always checked, with
    `skip_guard_eval_unsafe` too. Errors: A002 for another stance, A006 for `force_backend`.

    ```python
    with rl.compiler.set_stance("force_eager"):
        loss = model(batch)
    ```
    """

    def __init__(
        self, stance: str = "default", *, skip_guard_eval_unsafe: bool = False, force_backend: object = None
    ) -> None:
        require(
            stance in STANCES,
            "A002",
            "set_stance: there is no such stance",
            stance=stance,
            hint=f"one of {', '.join(STANCES)}",
        )
        if force_backend is not None:
            fail("A006", "set_stance: a backend is chosen by rl.compile", backend=force_backend)
        self._stance = stance
        self._outer: str | None = STANCE.name  # what the first `with` goes back to
        self._before: list[str] = []
        STANCE.name = stance

    def __call__(self, function: Any) -> Any:
        """A function that has the stance while it runs."""
        if self._outer is not None:
            STANCE.name, self._outer = self._outer, None
        return super().__call__(function)

    def __enter__(self) -> None:
        self._before.append(STANCE.name if self._outer is None else self._outer)
        STANCE.name, self._outer = self._stance, None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        STANCE.name = self._before.pop()
