"""Second derivatives through `rl.compile`, one operator in eight; `pytest FILE --full` asks all."""

import pytest

from matrix_twice import ask_twice_compiled, second_cases
from rushlight.support import settings


def pytest_generate_tests(metafunc):
    full = metafunc.config.getoption("--full")
    chosen = second_cases(full)
    metafunc.parametrize("case", chosen, ids=[case.op for case in chosen])


@pytest.mark.generated
@pytest.mark.row("2.1")
def test_second_gradients_of_compiled_calls_have_the_bits_of_eager_ones(case):
    with settings.override(optimise=0):
        assert ask_twice_compiled(case) is None
