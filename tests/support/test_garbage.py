"""The collector of cycles is switched off in a scope, and on again behind it."""

import gc

import pytest

from rushlight.support import garbage


def test_the_collector_rests_in_the_scope_and_works_behind_it():
    assert gc.isenabled()
    with pytest.raises(KeyError), garbage.uncollected():
        assert not gc.isenabled()
        with garbage.uncollected():
            pass
        assert not gc.isenabled()
        raise KeyError
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off():
    gc.disable()
    try:
        with garbage.uncollected():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
