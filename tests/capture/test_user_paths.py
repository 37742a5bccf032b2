"""How users write the arguments of a function that is being compiled."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl
from rushlight.capture.user_paths import written_arguments


def plain(x: Any, y: Any, *rest: Any, flag: Any = None, **others: Any) -> None: ...


class Layer(rl.nn.Module):
    def forward(self, x: Any, mask: Any = None) -> Any:
        return x if mask is None else x * mask


class Applied:
    def __call__(self, x: Any) -> Any:
        return x


LINES = ["a0 = args[0]", "a1 = args[1][2]['w']", "a2 = args[3]", "a3 = kwargs['flag']", "a4 = kwargs['more'][0]"]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (plain, {"a0": "x", "a1": "y[2]['w']", "a2": "rest[1]", "a3": "flag"}),
        (Layer(), {"a0": "x", "a1": "mask[2]['w']"}),
        (Layer().forward, {"a0": "x", "a1": "mask[2]['w']"}),
        (Applied(), {"a0": "x"}),
        (functools.partial(plain, 1), {}),
        (len, {}),
    ],
)
def test_arguments_are_written_by_the_names_of_parameters(function: Callable[..., Any], expected: dict[str, str]):
    assert written_arguments(function, LINES) == expected
