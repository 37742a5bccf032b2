"""CPU time by stage."""

import threading
import time

import pytest

from rushlight.support import clock


def burn(ms):
    end = time.thread_time_ns() + ms * 1_000_000
    while time.thread_time_ns() < end:
        pass


@pytest.fixture(autouse=True)
def fresh():
    clock.reset()
    yield
    clock.reset()


def test_a_stage_is_counted_without_those_inside_it():
    with clock.stage("outer"):
        burn(4)
        with clock.stage("inner"):
            burn(12)
        with clock.stage("inner"):
            burn(12)
    spent = clock.spent_ms()
    assert list(spent) == ["inner", "outer"]
    assert 24 <= spent["inner"] < 30
    assert 4 <= spent["outer"] < 10


def test_what_fails_is_counted_too():
    with pytest.raises(ValueError, match="mine"), clock.stage("outer"), clock.stage("inner"):
        burn(2)
        raise ValueError("mine")
    assert clock.spent_ms()["inner"] >= 2
    with clock.stage("next"):
        burn(2)
    assert clock.spent_ms()["next"] >= 2


def test_threads_do_not_see_each_others_stages():
    with clock.stage("mine"):
        thread = threading.Thread(target=lambda: _in_stage("other"))
        thread.start()
        thread.join()
        burn(3)
    spent = clock.spent_ms()
    assert spent["other"] >= 5
    assert 3 <= spent["mine"] < 5


def _in_stage(name):
    with clock.stage(name):
        burn(5)
