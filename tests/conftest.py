"""Options and fixtures of all tests."""

import functools
import gc
import itertools
import os
from collections.abc import Callable, Generator, Iterator
from datetime import date
from pathlib import Path
from zlib import crc32

import pytest

import rushlight as rl
from rushlight.distributed import destroy_process_group
from rushlight.ir import process_group
from rushlight.support import settings
from turns import not_due

_COLLECTED_TOGETHER = 50
_DAY = "GENERATED_TESTS_DAY"
_FINISHED = itertools.count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--accept", action="store_true", help="rewrite golden texts instead of comparing with them")
    full = "ask everything: all members of families of generated tests, and the matrix in every dtype"
    parser.addoption("--full", action="store_true", help=full)
    turns = "ask one in N members of each family of generated tests, others each day; 1 asks all (default 4)"
    parser.addoption("--turns", type=int, default=4, metavar="N", help=turns)
    parser.addoption("--sample", type=int, metavar="N", help="run at most N tests of each file, drawn by --sample-seed")
    parser.addoption("--sample-seed", type=int, default=0, help="another seed draws other tests")


def pytest_configure(config: pytest.Config) -> None:
    # Every graph, kernel and plan that a test compiles is checked, and no part fails to be traced for reasons of ours.
    settings.update(verify=True, strict_parts=True)
    # Each process of the run has a core: threads of NumPy's own would wait for each other.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault(_DAY, str(date.today().toordinal()))  # the same in all processes, also at midnight
    # Plans and kernels of all tests stay: looking through them for garbage again and again takes an eighth of the time.
    gc.set_threshold(50_000, 50, 1000)


def pytest_runtest_logfinish() -> None:
    if next(_FINISHED) % _COLLECTED_TOGETHER == 0:  # what is left is not looked through again
        gc.collect()
        gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    turns = 1 if config.getoption("--full") else config.getoption("--turns")
    left = not_due(items, turns, int(os.environ[_DAY]), config.args)
    if config.getoption("--sample"):
        left |= set(items) - _sample(items, config.getoption("--sample"), config.getoption("--sample-seed"))
    if left:
        config.hook.pytest_deselected(items=list(left))
        items[:] = [item for item in items if item not in left]
    if settings.get().poison:
        skipped = pytest.mark.skip(reason="poisoned memory takes other calls, or holds other bytes")
        for item in items:
            if item.get_closest_marker("unpoisoned") is not None:
                item.add_marker(skipped)
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)  # at the end they would keep one process


def _sample(items: list[pytest.Item], most: int, seed: int) -> set[pytest.Item]:
    """At most so many tests of each file, the same for the same seed in every process."""
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    return {
        item
        for inside in files.values()
        for item in sorted(inside, key=lambda item: crc32(f"{seed} {item.nodeid}".encode()))[:most]
    }


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Generator[None, object, object]:
    """A default process group that a test leaves behind is its failure, and not that of a later test."""
    result = yield
    if process_group.find_default() is not None:
        destroy_process_group()
        pytest.fail("the test left a default process group behind")
    return result


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
