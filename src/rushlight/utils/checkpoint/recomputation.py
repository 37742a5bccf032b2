"""One call of a checkpointed function: what runs it again, and the tensors that a second run gives back."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress

from rushlight.eager.autocast import AUTOCAST
from rushlight.eager.autograd.saved import SavedTensor, saved_tensors_hooks
from rushlight.eager.dispatch import STATE, Scope
from rushlight.eager.handle import Handle
from rushlight.eager.pytree import flatten_tree, unflatten_tree
from rushlight.eager.tensor_meta import TensorMeta
from rushlight.runtime.generator import default_generator
from rushlight.support.errors import RushlightError, fail


class EnoughRecomputed(BaseException):
    """Ends a recomputation when every tensor that was saved is there again."""


class Surroundings:
    """The random state, autocast and levels of vmap that a function ran in, for running it again."""

    __slots__ = ("_autocast", "_included", "_maps", "_random")

    def __init__(self, preserve_random: bool) -> None:
        self._random = default_generator.position() if preserve_random else None
        self._autocast = STATE.autocast
        self._included = STATE.included & AUTOCAST
        self._maps = STATE.maps

    def run(self, function: Callable[[], object]) -> object:
        """Calls a function, recorded, as if it were then; the random state is what it was before the call."""
        before = default_generator.position()
        scope = Scope(
            grad=True,
            maps=self._maps,
            autocast=self._autocast,
            cast_weights=None,
            included=STATE.included & ~AUTOCAST | self._included,
            excluded=STATE.excluded & ~AUTOCAST,
        )
        if self._random is not None:
            default_generator.go_to(self._random)
        try:
            with scope:
                return function()
        finally:
            if self._random is not None:
                default_generator.go_to(before)


class Recomputation:
    """What autograd saves of one call of a function: numbers in place of tensors.

    When a backward pass first asks for one, the function runs again. What it saves then are the tensors; each is let go
    of as soon as it was asked for.
    """

    __slots__ = (
        "_again",
        "_args",
        "_checks",
        "_early",
        "_explain",
        "_forms",
        "_found",
        "_function",
        "_pass",
        "_within",
    )

    def __init__(
        self,
        function: Callable[..., object],
        arguments: tuple[tuple[object, ...], dict[str, object]],
        surroundings: Surroundings,
        *,
        checks: bool,
        early: bool,
        within: AbstractContextManager[object] | None = None,
        explain: Callable[[RushlightError], None],
    ) -> None:
        self._function = function
        leaves, structure = flatten_tree(arguments)
        # Under the hooks around this call, so that an outer checkpoint keeps none of its intermediate results for it.
        self._args = [SavedTensor(leaf) if isinstance(leaf, Handle) else leaf for leaf in leaves]
        self._again = (surroundings, structure)
        self._checks = checks
        self._early = early
        self._within = within
        self._explain = explain
        self._forms: list[TensorMeta] = []
        self._found: dict[int, Handle] = {}
        self._pass: object = None

    def hooks(self) -> saved_tensors_hooks:
        """A scope in which what is saved is left to the recomputation."""
        return saved_tensors_hooks(self._pack, self._unpack)

    def _pack(self, tensor: Handle) -> int:
        self._forms.append(tensor.form)
        return len(self._forms) - 1

    def _unpack(self, number: int) -> Handle:
        now = STATE.engaged
        if now is None or self._pass is not now or number not in self._found:
            try:
                self._recompute()
            except RushlightError as error:
                if error.code == "G020":
                    self._explain(error)
                raise
            if now is not None and self._pass is not now:
                now.callbacks.append(self._forget)
            self._pass = now
        tensor = self._found.pop(number)
        if now is None:
            self._forget()
        return tensor

    def _forget(self) -> None:
        self._found, self._pass = {}, None

    def _recompute(self) -> None:
        tensors: dict[int, Handle] = {}
        count = len(self._forms)

        def keep(tensor: Handle) -> Handle:
            number = len(tensors)
            if number >= count:
                fail("G020", "checkpoint: the second run saves more tensors than the first", first=count)
            self._check(number, tensor.form)
            tensors[number] = tensor
            if self._early and len(tensors) == count:
                raise EnoughRecomputed
            return tensor

        surroundings, structure = self._again

        def run() -> None:
            args, kwargs = unflatten_tree(structure, [self._argument(arg) for arg in self._args])
            with saved_tensors_hooks(keep, lambda tensor: tensor), self._within or nullcontext():
                self._function(*args, **kwargs)

        with suppress(EnoughRecomputed):
            surroundings.run(run)
        if len(tensors) < count:
            fail(
                "G020",
                "checkpoint: the second run saves fewer tensors than the first",
                first=count,
                second=len(tensors),
            )
        self._found = tensors

    def _argument(self, argument: object) -> object:
        return argument.unpack(self, None) if isinstance(argument, SavedTensor) else argument

    def _check(self, number: int, form: TensorMeta) -> None:
        before = self._forms[number]
        same = form.dtype is before.dtype and form.device == before.device and tuple(form.shape) == tuple(before.shape)
        if self._checks and not same:
            fail(
                "G020",
                f"checkpoint: tensor {number} that the second run saves is another than in the first",
                first=before.type,
                second=form.type,
            )

    def name(self) -> str:
        """As it is shown in errors."""
        return "checkpoint"
