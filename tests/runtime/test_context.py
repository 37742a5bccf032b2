"""Calls of entries: arenas grow, asserts come back as statuses, Ctrl-C interrupts."""

import os
import signal
import threading
import time

import numpy as np
import pytest

from rushlight.runtime import context, llvm, native
from rushlight.support.errors import InternalError

LONG = 10**9


def entry_of(text):
    module = llvm.load_object(llvm.compile_object(text, llvm.host_target(), verify=True))
    return module, module.address("entry")


@pytest.mark.parametrize("work", [0, LONG])
def test_arena_grows_as_asked(texts, work):
    module, entry = entry_of(texts.needs_arena)
    for need in (10, 1 << 20, 100, 5 << 20):
        words = np.array([need], np.int64)
        assert context.call(entry, words.ctypes.data, work) == 0
        assert context.current().arena.view()[need - 1] == 7
    assert module.names() == ["entry"]


def test_large_arena_is_given_back(texts):
    _module, entry = entry_of(texts.needs_arena)
    words = np.array([200 << 20], np.int64)
    for _ in range(2):
        assert context.call(entry, words.ctypes.data) == 0
        assert context.current().arena.nbytes < 1 << 20


def test_assert_numbers_come_back(texts):
    _module, entry = entry_of(texts.returns)
    for status in (0, 16, 1000):
        words = np.array([status], np.int64)
        assert context.call(entry, words.ctypes.data) == status


@pytest.mark.parametrize("status", [3, 15, -1])
def test_unknown_status_is_a_defect(texts, status):
    _module, entry = entry_of(texts.returns)
    words = np.array([status], np.int64)
    with pytest.raises(InternalError, match="unknown status"):
        context.call(entry, words.ctypes.data)


def test_senseless_arena_demand_is_a_defect_not_a_loop(texts):
    _module, entry = entry_of(texts.returns)
    words = np.array([1], np.int64)
    with pytest.raises(InternalError, match="larger arena"):
        context.call(entry, words.ctypes.data)


def test_wrong_arguments_raise():
    call = native.functions().call_held
    for arguments in [(1, 2), (), ("a", 1, 2), (1, "a", 2), (0, 1, 2)]:
        with pytest.raises((TypeError, SystemError)):
            call(*arguments)


def test_wrong_tables_raise():
    same = native.functions().same_objects
    for arguments in [(), (1, 2), ("a",), (0,)]:
        with pytest.raises((TypeError, SystemError)):
            same(*arguments)


def test_threads_have_contexts_of_their_own():
    found = []
    threads = [threading.Thread(target=lambda: found.append(context.current())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    functions = native.functions()
    assert len({found_context.address for found_context in (*found, context.current())}) == 4
    assert all(c.words[context.INTERRUPT] == functions.no_interrupt_byte for c in found)
    assert context.current().words[context.INTERRUPT] == functions.interrupt_byte


def test_long_calls_release_the_interpreter(texts):
    _module, entry = entry_of(texts.polls)
    words = np.zeros(2, np.int64)

    def finish():
        time.sleep(0.05)
        words[1] = 1

    thread = threading.Thread(target=finish)
    thread.start()
    assert context.call(entry, words.ctypes.data, LONG) == 0  # would never end if the thread could not run
    thread.join()


def interrupt_soon(words, *, give_up=60.0):
    """Send SIGINT to this process once the entry runs; end it after `give_up` seconds if that did not help."""

    def work():
        while not words[0]:
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGINT)
        deadline = time.monotonic() + give_up
        while not words[1] and time.monotonic() < deadline:
            time.sleep(0.005)
        words[1] = 2

    thread = threading.Thread(target=work)
    thread.start()
    return thread


@pytest.fixture
def interruptible():
    """Python's usual handler, also in a process that was started in the background and ignores SIGINT."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)


@pytest.mark.usefixtures("interruptible")
def test_interrupt_raises_keyboard_interrupt(texts):
    _module, entry = entry_of(texts.polls)
    words = np.zeros(2, np.int64)
    thread = interrupt_soon(words)
    with pytest.raises(KeyboardInterrupt):
        context.call(entry, words.ctypes.data, LONG)
    assert words.tolist() == [1, 0], "it ended only when the other thread gave up"
    words[1] = 1
    thread.join()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    words[:] = 0, 1
    assert context.call(entry, words.ctypes.data, LONG) == 0  # the byte is clear again


def test_handler_that_raises_nothing_lets_the_call_run_again(texts):
    _module, entry = entry_of(texts.polls)
    words = np.zeros(2, np.int64)
    seen = []

    def handler(number, _frame):
        seen.append(number)
        words[1] = 1  # so that the second run ends

    previous = signal.signal(signal.SIGINT, handler)
    try:
        thread = interrupt_soon(words)
        assert context.call(entry, words.ctypes.data, LONG) == 0
        thread.join()
    finally:
        signal.signal(signal.SIGINT, previous)
    assert seen == [signal.SIGINT]
    assert words[0] == 2


def test_ignored_interrupt_stays_ignored(texts):
    _module, entry = entry_of(texts.polls)
    words = np.zeros(2, np.int64)
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        thread = interrupt_soon(words, give_up=0.2)
        assert context.call(entry, words.ctypes.data, LONG) == 0
        thread.join()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, previous)
    assert words[0] == 1
