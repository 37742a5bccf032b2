"""Mutated files give what they hold, or a registered error."""

from collections import Counter

import pytest

from tools.fuzz import files

FILES = 300


@pytest.fixture(scope="module", autouse=True)
def _child():
    yield
    files._child.close()


def test_mutated_files_give_values_or_registered_errors():
    skipped: Counter[str] = Counter()
    found = [files.judge(files.generate(7, number), skipped) for number in range(FILES)]
    assert not [str(one) for one in found if one is not None]
    for kind in (*files.WEIGHTS, "export", "settings"):
        assert skipped[f"{kind}: coded"] > FILES / 50
    for kind in files.KINDS:
        assert skipped[f"{kind}: value"]
