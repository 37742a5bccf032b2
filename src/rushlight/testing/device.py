"""A plug-in of pytest that asks a device all that Rushlight relies on.

    pytest -p rushlight.testing.device --device mica

The questions come in tiers, each of which relies on those before it: `memory`, `eager`, `autograd`, `compile`,
`serialisation` and `buckets`. `--tier eager` asks one of them. `--device-tolerance 0` demands the CPU's bits. With
`--resume LEDGER` each answer is a line of a file, and a later call goes on with what the file does not have.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from rushlight.testing.ledger import note, noted

TIERS = ("memory", "eager", "autograd", "compile", "serialisation", "buckets")
_QUESTIONS = Path(__file__).parent.parent / "conformance"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("rushlight devices")
    group.addoption("--device", metavar="NAME", help="the device to ask, as its entry point names it")
    group.addoption("--tier", action="append", choices=TIERS, help="ask this tier alone; may be given several times")
    tolerance = "how far a result may be from the CPU's, relative to it; 0 demands the same bits"
    group.addoption("--device-tolerance", type=float, default=1e-4, metavar="X", help=tolerance)
    resume = "note each answer in this file, and do not ask again what it has"
    group.addoption("--resume", type=Path, metavar="LEDGER", help=resume)


def pytest_configure(config: pytest.Config) -> None:
    """Let the questions be what is collected."""
    if config.getoption("--device") is None:
        raise pytest.UsageError("rushlight.testing.device: name a device, --device NAME")
    tiers = config.getoption("--tier") or TIERS
    config.args[:] = [str(_QUESTIONS / f"test_{tier}.py") for tier in TIERS if tier in tiers]
    config.addinivalue_line("filterwarnings", "ignore::rushlight.DeviceWarning")
    path = config.getoption("--resume")
    if path is not None:
        config.pluginmanager.register(Ledger(path))


class Ledger:
    """Answers as lines of JSON: the question, how it ended, the error's first line, seconds of a processor."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._begun = 0.0

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out what has been answered."""
        before = {str(answer["question"]) for answer in noted(self._path, dict)}
        known = [item for item in items if _question(item) in before]
        config.hook.pytest_deselected(items=known)
        items[:] = [item for item in items if item not in known]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        """Note when a question begins."""
        self._begun = time.process_time()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        """Note how a question ended."""
        if call.when == "call" or call.excinfo is not None:
            cause = "" if call.excinfo is None else call.excinfo.exconly().partition("\n")[0]
            outcome = "failed" if cause else "passed"
            seconds = round(time.process_time() - self._begun, 2)
            note(self._path, {"question": _question(item), "outcome": outcome, "cause": cause, "seconds": seconds})


def _question(item: pytest.Item) -> str:
    return f"{item.path.stem.removeprefix('test_')}: {item.name}"


@pytest.fixture(scope="session")
def device(request: pytest.FixtureRequest) -> str:
    """The device that is asked."""
    return str(request.config.getoption("--device"))


@pytest.fixture(scope="session")
def tolerance(request: pytest.FixtureRequest) -> float:
    """How far results may be from the CPU's."""
    return float(request.config.getoption("--device-tolerance") or 0)
