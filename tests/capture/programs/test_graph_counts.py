"""Programs that are called again and again make no graphs without end: each call's objects are new, and of one form."""

import pytest
from tests.capture.programs.collection import programs, topics
from tests.capture.programs.comparison import native, outcome

import rushlight as rl

CALLS = 8
SETTLED = 5  # what is another object at each call is passed by from the third graph on
ENDLESS = {
    "dict_of_before_gets_a_key_with_a_hash",  # a key of a class that hashes itself, new at each call
    "objects_with_an_end_die_with_their_list",
    "partial_method_of_the_class",
    "property_of_the_name",
    "registered_for_an_abstract_class",
    "sequence_by_registration",
}
"""Those that change a class, or what a class is told to be, at each call; or the state by a new key."""


@pytest.mark.generated
@pytest.mark.parametrize("topic", topics())
def test_programs_make_no_graphs_without_end(topic: str) -> None:
    found = set[str]()
    for name, program in programs(topic).items():
        rl.compiler.reset()
        compiled = rl.compile(program, fullgraph=False)
        counts: list[int] = []
        for _ in range(CALLS):
            outcome(native, compiled)
            counts.append(rl.compiler.graph_count())
        if counts[-1] > counts[SETTLED - 1]:
            found.add(name)
    assert found == ENDLESS & programs(topic).keys()
