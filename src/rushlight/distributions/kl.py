"""kl_divergence: the table of pairs of classes, and who answers for a pair."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from rushlight import Tensor
from rushlight.distributions.distribution import Distribution
from rushlight.support.errors import fail, require, warn

__all__ = ["kl_divergence", "register_kl"]

F = TypeVar("F", bound=Callable[..., Any])
Divergence = Callable[[Any, Any], Tensor]

_registered: dict[tuple[type, type], Divergence] = {}
_chosen: dict[tuple[type, type], Divergence] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[F], F]:
    """Return a decorator that registers a function of two distributions of these classes."""
    for cls in (type_p, type_q):
        require(isinstance(cls, type), "A001", "register_kl: a class of distributions is expected", given=cls)

    def attach(function: F) -> F:
        _registered[type_p, type_q] = function
        _chosen.clear()
        return function

    return attach


def _find(type_p: type, type_q: type) -> Divergence:
    """The most specific pair: by the first class's nearness, and by the second's."""
    pairs = [(p, q) for p, q in _registered if issubclass(type_p, p) and issubclass(type_q, q)]
    if not pairs:
        fail("A006", f"kl_divergence: no rule for {type_p.__name__} and {type_q.__name__}", hint="register_kl adds one")
    nearness = [(type_p.__mro__.index(p), type_q.__mro__.index(q)) for p, q in pairs]
    left = min(zip(nearness, pairs, strict=True))[1]
    right = min(zip([(q, p) for p, q in nearness], pairs, strict=True))[1]
    if _registered[left] is not _registered[right]:
        names = f"{type_p.__name__} and {type_q.__name__}"
        warn("A006", f"kl_divergence: two rules fit {names} equally well", key=names)
    return _registered[left]


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """Return the Kullback-Leibler divergence of q from p: the expectation under p of `log p - log q`."""
    key = type(p), type(q)
    function = _chosen.get(key)
    if function is None:
        function = _chosen[key] = _find(*key)
    return function(p, q)
