"""Where sizes come from, and what users write so that a condition on them is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rushlight as rl
from rushlight.compiler import mark_unbacked, shape_report
from rushlight.support.provenance import Frame
from rushlight.sym import Condition, Origin, OriginKind, Scope, SizeExpr, eq, ge, gt, le, lt, minimum, promise


def symbol(scope: Scope, kind: OriginKind, written: str | None) -> SizeExpr:
    return scope.symbol(written if kind is OriginKind.SPECIFIED else None, source=Origin("a size", kind, None, written))


def promised(condition: bool | Condition) -> str:
    assert isinstance(condition, Condition)
    return promise(condition)


def test_conditions_are_written_as_users_write_sizes():
    scope = Scope()
    rows, marked = symbol(scope, OriginKind.PLACE, "x.shape[0]"), symbol(scope, OriginKind.MARKED, "y.shape[1]")
    b, t = symbol(scope, OriginKind.SPECIFIED, "B"), symbol(scope, OriginKind.SPECIFIED, "T")
    value = symbol(scope, OriginKind.VALUE, None)
    assert promised(eq(rows, marked)) == "rl.check(x.shape[0] == y.shape[1])"
    assert promised(eq(rows % 4, 0)) == "rl.check(x.shape[0]%4 == 0)"
    assert promised(ge(rows, 2)) == "rl.check(x.shape[0] >= 2)"
    assert promised(eq(minimum(rows, 8), marked)) == "rl.check(rl.sym_min(x.shape[0], 8) == y.shape[1])"
    assert promised(ge(marked, 2)) == "rl.check(y.shape[1] >= 2), or min=2 in mark_unbacked"
    assert promised(le(marked, 8)) == "rl.check(y.shape[1] < 9), or max=8 in mark_unbacked"
    assert promised(ge(2 * marked, rows)).startswith("rl.check(") and "mark_unbacked" not in promised(gt(marked, rows))
    assert promised(eq(b, t)) == "B == T in the specification"
    assert promised(lt(value, 3)) == f"rl.check({value} < 3)"


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("n = x.sum().item()", "n"),
        ("rows = lengths[0].item()", "rows"),
        ("n = x.item() + 1", None),
        ("n = 2*x.item()", None),
        ("n = f(x.item()).item()", None),
        ("return x.item()", None),
        ("n == x.item()", None),
    ],
)
def test_a_value_has_the_name_that_its_line_gives_it(line: str, name: str | None, tmp_path: Path):
    (tmp_path / "model.py").write_text(f"{line}\n")
    origin = Origin("item() of x", OriginKind.VALUE, Frame(str(tmp_path / "model.py"), 1, "step"))
    assert origin.name == name
    assert str(origin) == f"item() of x, model.py:1 in step:  {line}"


def test_a_bound_in_the_mark_decides_what_the_check_would():
    def branching(x: Any) -> Any:
        return x + 1 if x.shape[0] >= 4 else x

    x = rl.ones(5)
    mark_unbacked(x, 0)
    with pytest.raises(rl.DataDependentError, match="min=4 in mark_unbacked"):
        rl.compile(branching, fullgraph=True)(x)
    mark_unbacked(x, 0, min=4)
    compiled = rl.compile(branching, fullgraph=True)
    compiled(x)
    (size,) = shape_report(compiled).functions[0].graphs[0].symbols
    assert size.facts == (">= 4",) and not size.backed
