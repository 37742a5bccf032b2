"""`axis` and `keepdims` stand for `dim` and `keepdim`, as in PyTorch."""

from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl

X = rl.arange(12.0).reshape(3, 4)
PLACES = rl.zeros(3, 1, dtype=rl.int64)
CALLS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "function": (lambda: rl.sum(X, axis=1), lambda: rl.sum(X, dim=1)),
    "method": (lambda: X.mean(axis=0, keepdims=True), lambda: X.mean(dim=0, keepdim=True)),
    "several dims": (lambda: X.sum(axis=(0, 1)), lambda: X.sum(dim=(0, 1))),
    "list": (lambda: rl.cat([X, X], axis=1), lambda: rl.cat([X, X], dim=1)),
    "required": (lambda: X.softmax(axis=-1), lambda: X.softmax(dim=-1)),
    "required before others": (lambda: X.gather(axis=1, index=PLACES), lambda: X.gather(1, PLACES)),
    "in place": (lambda: X.clone().cumsum_(axis=0), lambda: X.cumsum(0)),
    "out": (lambda: rl.amax(X, axis=0, out=rl.zeros(4)), lambda: X.amax(0)),
    "several results": (lambda: X.max(axis=1, keepdims=True), lambda: X.max(dim=1, keepdim=True)),
    "values": (lambda: rl.min(X, axis=0).values, lambda: rl.min(X, dim=0).values),
    "spread": (lambda: X.std(axis=1, keepdims=True), lambda: X.std(dim=1, keepdim=True)),
    "sorted": (lambda: X.flip(0).sort(axis=0).values, lambda: X),
    "composite": (lambda: rl.quantile(X, 0.5, axis=1), lambda: rl.quantile(X, 0.5, dim=1)),
    "squeeze": (lambda: X[None].squeeze(axis=0), lambda: X),
    "linalg": (lambda: rl.linalg.norm(X, axis=1), lambda: rl.linalg.norm(X, dim=1)),
    "fft": (lambda: rl.fft.fft(X, axis=0), lambda: rl.fft.fft(X, dim=0)),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_are_those_by_pytorchs_names(name: str):
    given, wanted = [call() for call in CALLS[name]]
    pairs = zip(given, wanted, strict=True) if isinstance(given, tuple) else [(given, wanted)]
    assert all(rl.equal(one, other) for one, other in pairs)


def test_compiled_functions_take_them():
    function = rl.compile(lambda x: x.sum(axis=1, keepdims=True) + rl.cat([x, x], axis=1).std(axis=1, keepdims=True))
    wanted = X.sum(1, keepdim=True) + rl.cat([X, X], 1).std(1, keepdim=True)
    assert rl.equal(function(X), wanted)


@pytest.mark.parametrize(
    "call",
    [
        lambda: X.sum(0, axis=1),
        lambda: X.gather(1, PLACES, axis=1),
        lambda: X.max(0, axis=1),
        lambda: rl.sort(X, dim=0, axis=1),
        lambda: X.gather(index=PLACES),
        lambda: rl.softmax(X),
        lambda: X.add(X, axis=1),
    ],
)
def test_what_is_given_twice_missing_or_unknown_is_refused(call: Callable[[], object]):
    with pytest.raises(TypeError):
        call()
