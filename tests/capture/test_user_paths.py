"""How users write the arguments of a function that is being compiled."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl
from rushlight.capture.user_paths import written_arguments, written_variables


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


def test_parts_write_what_they_read_of_objects():
    read = ["a0_3 = a0.__dict__['steps']", "a3 = a0_3", "a3_5 = a3.slot", "a4 = a3_5[0]", "a5 = a3_5['w']"]
    written = written_variables(["self", "x"], [None, None], ["a0 = args[0]", "a1 = args[1][0]", *read])
    leaves = {"a0": "self", "a1": "x[0]", "a3": "self.steps", "a4": "self.steps.slot[0]", "a5": "self.steps.slot['w']"}
    assert {name: path for name, path in written.items() if "_" not in name} == leaves
