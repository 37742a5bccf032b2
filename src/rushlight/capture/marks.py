"""Users' marks on the dims of a tensor: static, dynamic or unbacked sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rushlight.eager.handle import Handle
from rushlight.ops.dims import wrap_dim
from rushlight.support.errors import fail
from rushlight.support.frozen import frozen
from rushlight.sym import Origin, Scope, Size, SizeExpr, guarding_hint_or_throw

_PLACE = "_rushlight_dims"


@frozen
class Mark:
    """How the size of a dim is treated: "static" (its value is part of the program), "dynamic" or "unbacked".

    A dynamic size is a symbol that the program may compare but not fix; of an unbacked one it may not even know how it
    compares. Both lie between `lower` and `upper`.
    """

    kind: str
    lower: int = 0
    upper: int | None = None
    hint: int | None = None

    def symbol(self, scope: Scope, name: str, size: int, source: Origin) -> Size:
        """What stands for the size while tracing."""
        if self.kind == "static":
            return size
        hint = size if self.kind == "dynamic" else None
        return scope.symbol(name, hint, self.lower, self.upper, 1, source, self.hint)


def marks_of(tensor: Handle) -> dict[int, Mark]:
    """The marks of a tensor, by dim."""
    marks: dict[int, Mark] = vars(tensor).get(_PLACE, {})  # an attribute that is missed makes an error with a hint
    return marks


def mark_static(tensor: object, dims: int | Sequence[int] | None = None) -> None:
    """The sizes of these dims, by default of all, are constants of what is compiled: others make another graph."""
    _mark(tensor, dims, Mark("static"))


def mark_dynamic(
    tensor: object,
    dims: int | Sequence[int],
    *,
    min: int | None = None,
    max: int | None = None,
    hint: int | None = None,
) -> None:
    """The sizes of these dims may be any from `min` to `max`.

    A function that fixes one is refused (C011), with the line that does. Optimisations go by `hint`, or the size here.
    """
    _mark(tensor, dims, Mark("dynamic", min or 0, max, hint))


def mark_unbacked(
    tensor: object,
    dims: int | Sequence[int],
    *,
    min: int | None = None,
    max: int | None = None,
    hint: int | None = None,
) -> None:
    """The sizes of these dims are open: nothing is ever guarded on them, so there is one graph for all.

    A branch on one is refused (C002) unless `min`, `max` or `rl.check` decide it. Optimisations go by `hint`.
    """
    _mark(tensor, dims, Mark("unbacked", min or 0, max, hint))


def _mark(tensor: object, dims: int | Sequence[int] | None, mark: Mark) -> None:
    if not isinstance(tensor, Handle):
        fail("A001", f"mark_{mark.kind}: a tensor is expected", value=tensor)
    marks = dict(marks_of(tensor))
    for dim in range(tensor.ndim) if dims is None else [dims] if isinstance(dims, int) else dims:
        axis = wrap_dim(dim, tensor.ndim, f"mark_{mark.kind}")
        size = guarding_hint_or_throw(tensor.form.shape[axis])
        if size < mark.lower or (mark.upper is not None and size > mark.upper):
            bounds = f"{mark.lower} to {'any' if mark.upper is None else mark.upper}"
            fail("A002", f"mark_{mark.kind}: dim {axis} is {size}, and {bounds} are allowed", tensor=tensor)
        marks[axis] = mark
    setattr(tensor, _PLACE, marks)


def refuse_fixed(scope: Scope, said: Mapping[SizeExpr, str]) -> None:
    """C011 for a size that was `said` to be open and that the program fixes. Names the line that does."""
    for symbol, text in said.items():
        guard = scope.fixed_by(symbol)
        if guard is not None:
            size, condition = scope.resolve(symbol), str(guard.condition)
            message = f"compile: {text}, and the program needs it to be {size}"
            fail("C011", message, frame=guard.frame, guard=condition)
