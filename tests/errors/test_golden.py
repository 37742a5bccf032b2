"""Every registered code is triggered by a real cause, and its text is what we mean it to be."""

import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from errorcases import Case, load_cases, stable
from rushlight.support.errors import CODES

HERE = Path(__file__).parent
CASES = load_cases(HERE)

pytestmark = pytest.mark.core


@pytest.mark.row("11.9")
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_error_text_is_golden(
    case: Case, request: pytest.FixtureRequest, tmp_path: Path, golden: Callable[[str, str], None]
) -> None:
    report = case.report(request)
    assert isinstance(report, CODES[case.code].report)
    if case.users_line:
        assert report.frame is not None, "the error does not show the user's line"
        assert report.frame.filename == case.function.__code__.co_filename, f"not the user's line: {report.frame}"
    assert report.hint is None or report.hint.strip()
    golden(f"{case.name}.txt", stable(report.render(), {str(tmp_path): "<tmp>"}))
    assert pickle.loads(pickle.dumps(report)).render() == report.render()


def test_every_code_has_a_case() -> None:
    covered = {case.code for case in CASES}
    missing = sorted(set(CODES) - covered)
    assert not missing, f"codes without a case in tests/errors/cases_*.py: {', '.join(missing)}"


@pytest.mark.row("11.9")
def test_golden_texts_say_where_and_most_what_to_do() -> None:
    """Forty texts are the least that was promised; a hint is there where one helps."""
    texts = [path.read_text() for path in (HERE / "golden").glob("*.txt")]
    assert len(texts) >= 40
    assert all(" in " in text and ".py:" in text for text in texts)
    assert sum("hint: " in text for text in texts) >= 0.6 * len(texts)


def test_every_golden_text_belongs_to_a_case() -> None:
    assert {path.stem for path in (HERE / "golden").glob("*.txt")} <= {case.name for case in CASES}
