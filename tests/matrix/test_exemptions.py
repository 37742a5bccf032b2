"""Exemptions are few, real and documented."""

from pathlib import Path

import pytest

from matrix import answer
from matrix_cases import ASKED
from matrix_exemptions import EXEMPTIONS, MOST, page
from matrix_questions import QUESTIONS, all_cells, cells

PAGE = Path(__file__).parents[2] / "docs" / "exemptions.md"


def test_share_is_small():
    """At most 2 % of the cells are exempt."""
    every = all_cells()
    exempt = [cell for cell in every if any(row.covers(cell[1], cell[2]) for row in EXEMPTIONS)]
    assert len(every) > 10_000
    assert len(exempt) <= MOST * len(every), f"{len(exempt)} of {len(every)} cells are exempt"


@pytest.mark.parametrize("row", EXEMPTIONS, ids=lambda row: f"{row.op} {row.question} {row.case}")
def test_exemption_is_needed(row):
    """Some cell of every row fails; a row that is not needed has to be deleted."""
    found = covered(row)
    assert found, "no cell is covered: delete the row"
    assert any(answer(question, case) for question, case in found), "no cell fails any more: delete the row"


def covered(row):
    """The cells of a row."""
    pairs = ((op, question) for op in ASKED for question in QUESTIONS)
    return [(question, case) for op, question in pairs for case in cells(op, question) if row.covers(question, case)]


def test_page_is_fresh(request):
    """docs/exemptions.md is what the table and the cells say."""
    text = page(all_cells())
    if request.config.getoption("--accept"):
        PAGE.write_text(text, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == text, "run: pytest tests/matrix/test_exemptions.py --accept"
