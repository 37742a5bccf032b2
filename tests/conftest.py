"""Options and fixtures of all tests."""

import functools
import gc
import itertools
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

import rushlight as rl
from rushlight.support import settings

_COLLECTED_TOGETHER = 50
_FINISHED = itertools.count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--accept", action="store_true", help="rewrite golden texts instead of comparing with them")
    parser.addoption("--matrix-full", action="store_true", help="ask all cells of the generated matrix, in every dtype")
    turns = "ask each operator one in N questions of the generated matrix, in turns: for slow machines"
    parser.addoption("--matrix-turns", type=int, default=1, metavar="N", help=turns)


def pytest_configure(config: pytest.Config) -> None:
    # Every graph, kernel and plan that a test compiles is checked, and no part fails to be traced for reasons of ours.
    settings.update(verify=True, strict_parts=True)
    # Plans and kernels of all tests stay: looking through them for garbage again and again takes an eighth of the time.
    gc.set_threshold(50_000, 50, 1000)


def pytest_runtest_logfinish() -> None:
    if next(_FINISHED) % _COLLECTED_TOGETHER == 0:  # what is left is not looked through again
        gc.collect()
        gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    cells = [item for item in items if getattr(item, "originalname", None) == "test_cells"]
    left = {item for place, item in enumerate(cells) if place % config.getoption("--matrix-turns")}
    if left:
        config.hook.pytest_deselected(items=list(left))
        items[:] = [item for item in items if item not in left]
    if settings.get().poison:
        skipped = pytest.mark.skip(reason="poisoned memory takes other calls, or holds other bytes")
        for item in items:
            if item.get_closest_marker("unpoisoned") is not None:
                item.add_marker(skipped)
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)  # at the end they would keep one process


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """With RUSHLIGHT_COMPILE_TESTS=1 bodies are compiled in parts, but for those in `uncompiled.txt`."""
    body = pyfuncitem.obj
    if settings.get().compile_tests and not pyfuncitem.nodeid.startswith(_uncompiled()):
        pyfuncitem.obj = rl.compile(body, backend="eager", fullgraph=False)
    try:
        return (yield)
    finally:
        pyfuncitem.obj = body


@functools.cache
def _uncompiled() -> tuple[str, ...]:
    """The beginnings of the names of tests whose bodies are not compiled."""
    lines = (Path(__file__).parent / "uncompiled.txt").read_text(encoding="utf-8").splitlines()
    return tuple([line.partition("  ")[0] for line in lines if line and not line.startswith("#")])


@pytest.fixture
def quick_code() -> Iterator[None]:
    """Code that LLVM works little at, of the same bits: for programs that are many, and small."""
    with settings.override(optimise=0):
        yield


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden("fuse-two.ir", text)` compares with `golden/fuse-two.ir` beside the test; `--accept` rewrites it."""
    folder = Path(request.path).parent / "golden"

    def compare(name: str, text: str) -> None:
        path = folder / name
        text = text.rstrip("\n") + "\n"
        if request.config.getoption("--accept"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return
        repro = f"to accept what is printed now: pytest '{request.node.nodeid}' --accept"
        assert path.exists(), f"there is no golden text {path}; {repro}\n{text}"
        assert text == path.read_text(encoding="utf-8"), repro

    return compare
