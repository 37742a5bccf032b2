"""Keywords that PyTorch's functions take and that have no parameter here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rushlight.eager.storage.formats import strided
from rushlight.support.errors import fail, require
from rushlight.support.names import did_you_mean
from rushlight.support.provenance import called_name

# Keywords of PyTorch's that change nothing here. There is one layout; memory is not pinned, because there is no device
# that would read it; no copy is asynchronous.
_WITHOUT_EFFECT: Mapping[str, tuple[object, ...]] = {
    "layout": (None, strided),
    "memory_format": (None,),
    "names": (None,),
    "non_blocking": (False, True),
    "out": (None,),
    "pin_memory": (False, True),
}


def no_more(
    keywords: Mapping[str, object],
    names: Iterable[str],
    without_effect: Mapping[str, tuple[object, ...]] = _WITHOUT_EFFECT,
) -> None:
    """Refuses keywords that a function does not take.

    `without_effect` has PyTorch's keywords that are accepted, with the values that change nothing here. Errors: A003
    for an unknown keyword, A006 for another value of an accepted one.
    """
    for name, value in keywords.items():
        allowed = without_effect.get(name)
        if allowed is None:
            hint = did_you_mean(name, (*names, *without_effect))
            fail("A003", f"{called_name()}: there is no argument {name}", hint=hint)
        if not any(value is one for one in allowed):
            fail("A006", f"{called_name()}: {name} is not supported", value=value)


def named_size(sizes: tuple[object, ...], keywords: dict[str, object], names: Iterable[str]) -> tuple[object, ...]:
    """The sizes of a creation function, given by position or as `size=`.

    Other keywords are refused as by `no_more`.
    """
    if "size" in keywords:
        named = keywords.pop("size")
        require(not sizes, "A003", f"{called_name()}: size is given twice", size=named)
        listed = isinstance(named, (tuple, list))
        require(listed, "A001", f"{called_name()}: size must be a tuple of ints", size=named)
        sizes = (named,)
    no_more(keywords, ("size", *names))
    return sizes
