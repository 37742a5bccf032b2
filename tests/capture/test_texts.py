# ruff: noqa: UP031, UP032 - what C makes of its operands is the question
"""Texts of tensors, sizes and numbers of the run time in compiled functions are those of eager code, also from C."""

from __future__ import annotations

import string
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import rushlight as rl


@dataclass
class Held:
    value: object


TEXTS: dict[str, Callable[[rl.Tensor], Any]] = {
    "ascii": lambda x: ascii(x.sum()),
    "containers": lambda x: "{} {}".format({"a": [x.sum().item()]}, [x]),
    "dataclass": lambda x: "{}".format(Held(x.sum())) + repr(Held(x.sum().item())),
    "dict": lambda x: str({"a": x.sum()}),
    "error": lambda x: str(ValueError(x.sum().item(), x)),
    "flag": lambda x: "{} {!s:>8}".format((x.sum() > 1).item(), (x.sum() > 1).item()),
    "format": lambda x: "{} {:.2f} {:3}".format(x.sum().item(), x.sum(), x.sum()),
    "format_map": lambda x: "{a}".format_map({"a": x.sum().item()}),
    "index": lambda x: "{0[0]} {0[1]:5d}".format([x.argmax().item(), x.argmax().item()]),
    "join": lambda x: ", ".join(map(str, [x.sum().item(), x.shape[0]])),
    "map": lambda x: "".join(map("{}".format, [x.sum(), x.shape])),
    "methods": lambda x: x.shape.__repr__() + x.shape[0].__format__(">4") + repr(x.shape),
    "named": lambda x: "{a} {b!r}".format(a=x, b=x.shape),
    "percent": lambda x: "%s" % x.sum().item(),
    "percent_dict": lambda x: "%(a)s %(b)5.1f" % {"a": x.sum(), "b": x.sum().item()},
    "percent_tensor": lambda x: "%r %03d" % (x, x.shape[0]),
    "sizes": lambda x: "{:03d} {} {:.1f} {} {:>6}".format(x.shape[0], x.shape, x.shape[0] / 4, len(x), x.shape[0] > 4),
    "template": lambda x: string.Template("$a").substitute(a=x.sum().item()),
}


@pytest.mark.parametrize("name", TEXTS)
def test_texts_are_those_of_eager_code(name: str):
    def function(x: rl.Tensor) -> tuple[rl.Tensor, Any]:
        return x + 1, TEXTS[name](x * 2)

    compiled = rl.compile(function, backend="eager")
    for size in (3, 3, 5, 6):
        x = rl.arange(size) / 2
        assert compiled(x)[1] == function(x)[1]


@pytest.mark.parametrize("name", ["format", "named", "percent", "index", "flag"])
def test_a_graph_has_no_text_of_what_it_computes(name: str):
    with pytest.raises(rl.DataDependentError):
        rl.compile(lambda x: (x + 1, TEXTS[name](x * 2)), fullgraph=True)(rl.ones(3))


def test_the_text_of_sizes_fixes_them_in_a_graph():
    compiled = rl.compile(lambda x: (x + 1, TEXTS["sizes"](x)), fullgraph=True)
    for size in (3, 4, 5):
        assert compiled(rl.ones(size))[1] == TEXTS["sizes"](rl.ones(size))


def test_messages_of_functions_of_ours_fix_no_sizes():
    compiled = rl.compile(lambda x, lengths: rl.nn.utils.rnn.pack_padded_sequence(x, lengths).data, fullgraph=True)
    rl.compiler.reset()
    for size in (3, 4, 5):
        x, lengths = rl.rand(size, size + 1, 2), rl.full((size + 1,), size)
        assert bool((compiled(x, lengths) == x.reshape(-1, 2)).all())
    assert rl.compiler.graph_count() == 1


def test_texts_that_differ_at_each_turn_are_passed_by_where_graphs_differ_elsewhere_too() -> None:
    def shown(found: dict[str, Any]) -> dict[str, Any]:
        return {
            name: value.detach().numpy().copy() if isinstance(value, rl.Tensor) else value
            for name, value in found.items()
        }

    found = {f"value {at}": rl.full((at + 1,), float(at)) if at % 4 else at for at in range(24)}
    compiled = rl.compile(shown)
    for _ in range(2):  # without a warning
        assert {name: np.sum(value) for name, value in compiled(found).items()} == {
            name: np.sum(value) for name, value in shown(found).items()
        }
