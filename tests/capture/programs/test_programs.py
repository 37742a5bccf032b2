"""Every program is one that can judge: it does the same whenever Python runs it, and something that can be seen."""

import ast
import inspect

import pytest
from tests.capture.programs.collection import HERE, programs, topics
from tests.capture.programs.comparison import differences, native, outcome

IDLE = outcome(native, lambda x, env: None)


@pytest.mark.parametrize("topic", topics())
def test_programs_do_the_same_twice_and_not_nothing(topic):
    for name, program in programs(topic).items():
        found = outcome(native, program)
        assert differences(found, outcome(native, program)) == [], name
        assert differences(found, IDLE), f"{name} does nothing"


@pytest.mark.parametrize("topic", topics())
def test_no_program_hides_another(topic):
    tree = ast.parse((HERE / f"{topic}.py").read_text(encoding="utf-8"))
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("topic", topics())
def test_programs_take_a_tensor_and_an_environment(topic):
    for name, program in programs(topic).items():
        assert list(inspect.signature(program).parameters) == ["x", "env"], name
