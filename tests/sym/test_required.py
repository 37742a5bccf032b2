"""What operators need of sizes: guarded where there is an example, asserted at run time where there is none."""

import pytest

from rushlight.support.errors import ExecutionError
from rushlight.sym import Scope, eq, ge, ne, required, statically_known


def texts(items):
    return [str(item.condition) for item in items]


def test_what_is_needed_of_an_example_is_guarded():
    scope = Scope()
    s0, s1 = scope.symbol(hint=3), scope.symbol(hint=3)
    assert required(eq(s0, s1))
    assert not required(eq(s0, 4))
    assert texts(scope.guards) == ["s0 == s1", "s0 != 4"]
    assert not scope.asserts


def test_what_is_needed_of_an_unknown_size_is_asserted_and_then_known():
    scope = Scope()
    u0, s0 = scope.symbol(), scope.symbol(hint=3)
    assert required(ge(u0, s0), "there is room")
    assert required(ge(u0, s0))
    assert texts(scope.asserts) == ["s0 <= u0"]
    assert scope.asserts[0].message == "there is room"
    assert statically_known(ge(u0, s0))
    assert not scope.guards


def test_what_never_holds_is_answered_and_not_asserted():
    scope = Scope()
    u0 = scope.symbol(lower=2)
    assert not required(eq(u0, 1))
    assert required(ne(u0, 1))
    assert required(True)
    assert not required(False)
    assert not scope.asserts
    with pytest.raises(ExecutionError):
        scope.check(eq(u0, 1))
