"""A plug-in of pytest that asks a device all that Rushlight relies on.

    pytest -p rushlight.testing.device --device mica

The questions come in tiers, each of which relies on those before it: `memory`, `eager`, `autograd`, `compile`,
`serialisation` and `buckets`. `--tier eager` asks one of them. `--device-tolerance 0` demands the CPU's bits.
"""

from __future__ import annotations

from pathlib import Path

import pytest

TIERS = ("memory", "eager", "autograd", "compile", "serialisation", "buckets")
_QUESTIONS = Path(__file__).parent.parent / "conformance"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("rushlight devices")
    group.addoption("--device", metavar="NAME", help="the device to ask, as its entry point names it")
    group.addoption("--tier", action="append", choices=TIERS, help="ask this tier alone; may be given several times")
    tolerance = "how far a result may be from the CPU's, relative to it; 0 demands the same bits"
    group.addoption("--device-tolerance", type=float, default=1e-4, metavar="X", help=tolerance)


def pytest_configure(config: pytest.Config) -> None:
    """Let the questions be what is collected."""
    if config.getoption("--device") is None:
        raise pytest.UsageError("rushlight.testing.device: name a device, --device NAME")
    tiers = config.getoption("--tier") or TIERS
    config.args[:] = [str(_QUESTIONS / f"test_{tier}.py") for tier in TIERS if tier in tiers]
    config.addinivalue_line("filterwarnings", "ignore::rushlight.DeviceWarning")


@pytest.fixture(scope="session")
def device(request: pytest.FixtureRequest) -> str:
    """The device that is asked."""
    return str(request.config.getoption("--device"))


@pytest.fixture(scope="session")
def tolerance(request: pytest.FixtureRequest) -> float:
    """How far results may be from the CPU's."""
    return float(request.config.getoption("--device-tolerance") or 0)
