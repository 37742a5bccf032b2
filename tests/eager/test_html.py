"""Tensors in notebooks."""

import re

import pytest

import rushlight as rl
from rushlight.eager.printing.text import set_printoptions


def rows_of(x: rl.Tensor) -> list[list[str]]:
    """The cells of the table, heads included, row by row."""
    page = x._repr_html_()
    return [re.findall(r"<t[hd]>(.*?)</t[hd]>", row) for row in re.findall(r"<tr>(.*?)</tr>", page)]


def test_a_matrix_is_a_table_with_numbers_of_rows_and_columns():
    x = rl.tensor([[1.5, -2.0], [float("nan"), float("inf")]])
    assert rows_of(x) == [["", "0", "1"], ["0", "1.5000", "-2.0000"], ["1", "nan", "inf"]]
    assert "Tensor of float32 [2, 2]<" in x._repr_html_()


def test_vectors_and_numbers():
    assert rows_of(rl.tensor([True, False])) == [["", "0", "1"], ["", "True", "False"]]
    assert rows_of(rl.tensor(3)) == [["3"]]
    assert rows_of(rl.tensor([1 + 2j])) == [["", "0"], ["", "1.+2.j"]]


def test_strides_do_not_matter():
    x = rl.arange(6).reshape(2, 3)
    assert rows_of(x.t())[1:] == [["0", "0", "3"], ["1", "1", "4"], ["2", "2", "5"]]


def test_long_tensors_show_their_corners():
    found = rows_of(rl.arange(5000).reshape(100, 50))
    assert found[0] == ["", "0", "1", "2", "…", "47", "48", "49"]
    assert [row[0] for row in found] == ["", "0", "1", "2", "…", "97", "98", "99"]
    assert found[4] == ["…"] * 8
    assert found[-1] == ["99", "4950", "4951", "4952", "…", "4997", "4998", "4999"]
    assert rows_of(rl.arange(2000))[1] == ["", "0", "1", "2", "…", "1997", "1998", "1999"]


def test_print_options_count():
    set_printoptions(precision=1, threshold=3, edgeitems=1)
    try:
        assert rows_of(rl.tensor([0.25, 1, 2, 3.5]))[1] == ["", "0.2", "…", "3.5"]
    finally:
        set_printoptions(profile="default")


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 2, 2)])
def test_what_is_no_table_is_text(shape: tuple[int, ...]):
    x = rl.ones(shape)
    assert x._repr_html_() == f"<pre>{x!r}</pre>"


def test_histories_are_told_and_escaped():
    x = rl.ones(2, requires_grad=True)
    assert "Tensor of float32 [2], requires_grad=True<" in x._repr_html_()
    assert "grad_fn=&lt;MulBackward0&gt;" in (x * 2)._repr_html_()
    assert "Parameter of float32 [2]" in rl.nn.Parameter(rl.ones(2))._repr_html_()


def test_tensors_without_data_are_text():
    assert rl.ones(2, 2, device="meta")._repr_html_().startswith("<pre>")
