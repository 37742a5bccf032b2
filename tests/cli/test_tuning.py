"""`rushlight tune`."""

from collections.abc import Callable
from pathlib import Path

from rushlight.tune.records import FILE


def test_a_product_is_tuned_once(cache: Path, rushlight: Callable):
    skipped = rushlight("tune", "mm", "40", "50", "60", "--budget", "0")
    assert skipped.status == 0 and "without a budget nothing is measured" in skipped.out
    assert not (cache / FILE).exists()
    ended = rushlight("tune", "mm", "40", "50", "60", "--budget", "1")
    assert ended.status == 0
    assert ended.out.startswith("mr=") and " tried" in ended.out
    (line,) = (cache / FILE).read_text().splitlines()
    assert "| float32, B=1, M=40, N=50, K=60, a plain row, b plain row |" in line
    assert rushlight("tune", "mm", "40", "50", "60", "--explain").out == ended.out  # nothing is tried
    assert line in rushlight("tune", "records").out


def test_explain_prints_what_is_tried(cache: Path, rushlight: Callable):
    ended = rushlight("tune", "mm", "40", "50", "60", "--budget", "1", "--explain")
    assert ended.out.count("the best so far") >= 1


def test_a_dtype_without_a_product_is_refused(rushlight: Callable):
    ended = rushlight("tune", "mm", "40", "50", "60", "--dtype", "complex64")
    assert ended.status == 1
    assert "A002" in ended.err
