"""Lists and dicts that hold arguments of nodes: they cannot be changed, since the nodes would not notice."""

from __future__ import annotations

from typing import Any, NoReturn

from rushlight.support.errors import fail

__all__ = ["immutable_dict", "immutable_list"]


def _refuse(self: object, *args: object, **kwargs: object) -> NoReturn:
    hint = "make a new value, and assign node.args or node.kwargs"
    fail("A001", f"fx: a {type(self).__name__} among a node's arguments cannot be changed", hint=hint)


class ImmutableList(list[Any]):
    """A list that cannot be changed."""

    __delitem__ = __iadd__ = __imul__ = __setitem__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __reduce__(self) -> tuple[object, ...]:
        return ImmutableList, (tuple(self),)


class ImmutableDict(dict[str, Any]):
    """A dict that cannot be changed."""

    __delitem__ = __ior__ = __setitem__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[object, ...]:
        return ImmutableDict, (dict(self),)


immutable_list, immutable_dict = ImmutableList, ImmutableDict
