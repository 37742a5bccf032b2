"""No meta, decomposition, lowering or later stage asks an unknown size for an integer, a truth value or its items."""

import pytest

from rushlight.ops import OPERATORS
from rushlight.sym import Scope, SizeExpr
from rushlight.testing import unbacked_fuzz

FORCING = ("__int__", "__index__", "__float__", "__iter__", "__bool__", "__len__")


@pytest.fixture
def unforced(monkeypatch):
    """Sizes that do not bear being forced."""

    def raising(name):
        def force(self):
            raise AssertionError(f"{name} of a size was called")

        return force

    for name in FORCING:
        monkeypatch.setattr(SizeExpr, name, raising(name), raising=False)


@pytest.mark.generated
@pytest.mark.usefixtures("unforced", "quick_code")
@pytest.mark.parametrize("part", range(4))
def test_no_rule_forces_a_size(part):
    count = len(OPERATORS) // 4 + 1
    report = unbacked_fuzz(1, count, first=part * count)
    assert not report.findings, str(report)


@pytest.mark.usefixtures("unforced")
def test_a_forced_size_is_noticed():
    scope = Scope()
    size = scope.symbol()
    for force in (int, bool, float, list, len):
        with pytest.raises(AssertionError, match="was called"):
            force(size)
