"""Every program does the same when its bytecode is interpreted as when Python runs it."""

import sys

import pytest
from tests.capture.programs.collection import programs, topics
from tests.capture.programs.comparison import differences, native, outcome

from rushlight.capture.interpreter import interpret

ESCAPES = "a generator that outlives the call is not yet one of Python's"
# Programs that differ, with the reason. One that no longer differs must leave the list.
DIFFERING = {
    "functions/coroutines:coroutine_returned_unstarted": ESCAPES,
    "functions/generators:generator_kept_in_the_environment": ESCAPES,
    "functions/native_callbacks:generator_attribute_missing": ESCAPES,
    "functions/generators:generator_returned_unfinished": ESCAPES,
    "functions/generators:generator_returned_unstarted": ESCAPES,
    "statements/py313_syntax:frame_locals_write_through": "`f_locals` of an interpreted frame is a copy",
}
if sys.version_info >= (3, 13):
    DIFFERING["functions/native_callbacks:generator_locals"] = "`f_locals` of an interpreted frame is a dict"


@pytest.mark.parametrize("topic", topics())
def test_interpreted_programs_do_what_python_does(topic):
    for name, program in programs(topic).items():
        found = differences(outcome(native, program), outcome(interpret, program))
        if f"{topic}:{name}" in DIFFERING:
            assert found, f"{topic}:{name} does not differ any more: take it off the list"
        else:
            assert not found, "\n".join([f"{topic}:{name}", *found])


def test_listed_programs_exist():
    known = {f"{topic}:{name}" for topic in topics() for name in programs(topic)}
    later = {name for name in DIFFERING if "/py313_" in name and sys.version_info < (3, 13)}
    assert set(DIFFERING) <= known | later
