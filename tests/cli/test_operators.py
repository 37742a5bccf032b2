"""`rushlight ops` and `rushlight dispatch`: the registry printed, and who answers a call."""

import json

import pytest
from typer.testing import CliRunner

import rushlight as rl
from rushlight.cli.app import app
from rushlight.ops import OPERATORS
from rushlight.support.errors import RushlightError


def printed(*arguments):
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


@pytest.mark.row("1.1")
def test_the_registry_is_printed():
    records = json.loads(printed("ops", "list", "--json"))
    assert {record["name"] for record in records} == set(OPERATORS)
    add = next(record for record in records if record["name"] == "add")
    assert add["schema"].startswith("add(Tensor")
    assert "POINTWISE" in add["facts"]
    assert add["kernels"]["CPU"] == "eager.execution.kernels.run_on_cpu (for all operators)"
    assert "matmul(" in printed("ops", "list", "matmul")


@pytest.mark.row("1.1")
def test_a_custom_operator_comes_and_goes_in_the_registry():
    @rl.library.custom_op("mine::printed", mutates_args=())
    def operator(x: rl.Tensor) -> rl.Tensor:
        return x.clone()

    try:
        text = printed("ops", "explain", "mine::printed")
        assert "mine::printed(Tensor x) -> Tensor" in text
        assert "its own" in text
        assert "FOREIGN" in text
        assert operator(rl.ones(1)).item() == 1.0
    finally:
        operator.remove()
    with pytest.raises(RushlightError, match="there is no operator"):
        printed("ops", "explain", "mine::printed")


def test_coverage_counts_the_operators_of_a_device():
    assert printed("ops", "coverage").startswith(f"cpu: {len(OPERATORS)}/{len(OPERATORS)} operators")
    with pytest.raises(RushlightError, match="there is no device"):
        printed("ops", "coverage", "--device", "fruit")


def test_a_call_is_explained():
    text = printed("dispatch", "explain", "add", "float32[3,4]:grad", "float32[4]")
    lines = [line.split() for line in text.splitlines()[1:]]
    assert [line[0] for line in lines] == ["AUTOGRAD", "CPU"]
    assert "autograd.record.record (for all operators)" in text
    assert "META" in printed("dispatch", "explain", "matmul", "float32[3,4]@meta", "float32[4,2]@meta")
    for wrong in ("float99[2]", "x + 1"):
        with pytest.raises(RushlightError):
            printed("dispatch", "explain", "add", wrong, "1")
