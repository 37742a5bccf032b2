"""The fuzzer of native eager calls: it finds nothing, and it finds what is planted."""

from collections import Counter

import pytest
from tests.eager.native_outcomes import native_only

from rushlight.eager.execution.views import ViewPlan
from rushlight.eager.native import learning
from rushlight.support import settings
from tools.fuzz import native

pytestmark = [pytest.mark.unpoisoned, native_only]


@pytest.mark.generated
@pytest.mark.parametrize("share", range(4))
def test_native_calls_do_what_python_s_do(share: int) -> None:
    with settings.override(optimise=0):
        found = [native.judge(native.generate(7, number), Counter()) for number in range(share, 48, 4)]
    assert [finding for finding in found if finding is not None] == []


def test_a_view_that_begins_at_a_wrong_place_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    direct = ViewPlan.direct.fget
    assert direct is not None

    def wrong(plan: ViewPlan) -> object:
        view = direct(plan)
        return view and view._replace(distance=view.distance + 1 if view.distance else 0)

    monkeypatch.setattr(ViewPlan, "direct", property(wrong))
    for calls in learning.loaded():
        calls.table.clear()
    with settings.override(optimise=0):
        found = (native.judge(native.generate(7, number), Counter()) for number in range(1, 80, 2))
        assert any(finding is not None for finding in found)
    for calls in learning.loaded():
        calls.table.clear()
