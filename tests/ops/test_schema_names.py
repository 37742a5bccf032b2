"""The names that rules are checked against at import are those of the parsed schema."""

from __future__ import annotations

import pytest

from rushlight.ops import OPERATORS
from rushlight.ops.schema import parse_schema, signature_of


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_signature_has_the_names_of_the_schema(name: str) -> None:
    schema = OPERATORS[name].schema
    signature = signature_of(schema.text)
    assert signature.name == schema.name
    assert signature.parameters == tuple([item.name for item in schema.parameters])
    assert signature.results == tuple([item.name for item in schema.results])


@pytest.mark.parametrize("name", sorted(name for name, op in OPERATORS.items() if op.vjp_rule is not None))
def test_vjp_says_which_parameters_receive_types(name: str) -> None:
    op = OPERATORS[name]
    annotations = op.vjp_rule.__annotations__
    assert op.vjp_types == tuple([need for need in op.vjp_needs if "TensorType" in str(annotations.get(need))])


def test_defaults_with_commas_do_not_split() -> None:
    text = "f(Tensor(a) x, int[] size=(1, 2), str how='mean', *, bool keep=False) -> (Tensor values, Tensor)"
    assert signature_of(text).parameters == ("x", "size", "how", "keep")
    assert signature_of(text).results == tuple([item.name for item in parse_schema(text).results])
