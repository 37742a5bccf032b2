"""The thread pool: every index is done once, whoever does it, and callers never wait for each other's jobs."""

import ctypes
import os
import sys
import threading
import time

import numpy as np
import pytest

from rushlight.runtime import context, llvm, native, placement_text, pool, pool_text
from rushlight.support.errors import ArgumentValueError

LONG = 10**9  # work that is worth threads


@pytest.fixture(autouse=True)
def two_threads():
    before = pool.get_num_threads()
    pool.set_num_threads(2)
    yield
    pool.set_num_threads(before)


@pytest.fixture(scope="module")
def modules(texts):
    named = {name: getattr(texts, name) for name in ("increment", "mark", "meet", "halve", "nested")}
    target = llvm.host_target()
    return {name: llvm.load_object(llvm.compile_object(text, target, verify=True)) for name, text in named.items()}


def run(module, data, n, grain, *more):
    words = np.array([data.ctypes.data, n, grain, *more], np.int64)
    assert context.call(module.address("parallel"), words.ctypes.data, LONG) == 0


@pytest.mark.parametrize(
    ("n", "grain"), [(0, 1), (1, 1), (2, 1), (7, 1), (1000, 0), (1000, 7), (1000, 999), (1000, 1000), (100_003, 10)]
)
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_every_index_is_done_once(modules, n, grain, threads):
    pool.set_num_threads(threads)
    data = np.zeros(n + 1, np.int64)
    for _ in range(20):
        run(modules["increment"], data, n, grain)
    assert (data[:n] == 20).all()
    assert data[n] == 0


def test_shares_begin_at_whole_grains(modules):
    data = np.full(1000, -1, np.int64)
    run(modules["mark"], data, 1000, 7, 1000)
    begins = np.unique(data)
    assert len(begins) > 1
    assert (begins % 7 == 0).all()
    assert all((data[begin : begin + 7] == begin).all() for begin in begins)


@pytest.mark.parametrize("threads", [2, 5])
def test_chunks_are_shares_of_what_is_left_down_to_a_grain(modules, threads):
    pool.set_num_threads(threads)
    data = np.full(1000, -1, np.int64)
    run(modules["mark"], data, 1000, 7, 1000)
    expected = [0]
    while expected[-1] < 1000:
        grains = (1000 - expected[-1]) // (7 * threads * pool_text.SHARES_PER_THREAD)
        expected.append(expected[-1] + 7 * max(grains, 1))
    assert np.unique(data).tolist() == expected[:-1]


def test_workers_take_part(modules):
    for _ in range(3):
        data = np.zeros(2, np.int64)
        run(modules["meet"], data, 2, 1, 0, 10**9)
        assert (data == 1).all()


def test_one_thread_meets_nobody(modules):
    pool.set_num_threads(1)
    data = np.zeros(2, np.int64)
    run(modules["meet"], data, 2, 1, 0, 10**5)
    assert (data == 0).all()


@pytest.mark.skipif(not placement_text.available(), reason="the C library does not place threads")
def test_workers_that_sleep_are_woken_on_other_processors_than_their_callers(modules):
    allowed = os.sched_getaffinity(0)
    pool.POOL.stop()  # new workers may run wherever their caller may
    data = np.zeros(1000, np.int64)
    run(modules["increment"], data, 1000, 1)
    [worker] = [thread for thread in threading.enumerate() if thread.name == "rushlight-0"]
    time.sleep(0.02)
    run(modules["increment"], data, 1000, 1)
    elsewhere = os.sched_getaffinity(worker.native_id)
    assert elsewhere < allowed if len(allowed) > 1 else elsewhere == allowed
    assert len(elsewhere) == max(1, len(allowed) - 1)


@pytest.mark.skipif(not placement_text.available(), reason="the C library does not place threads")
def test_workers_help_a_caller_who_may_use_one_processor(modules):
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        data = np.zeros(1000, np.int64)
        for _ in range(3):
            time.sleep(0.02)
            run(modules["increment"], data, 1000, 1)
    finally:
        os.sched_setaffinity(0, allowed)
    assert (data == 3).all()


def test_machines_that_do_not_place_threads_compile_the_pool_too():
    texts = [pool_text.environment_text("arm64"), placement_text.placement_text(False), pool_text.pool_text()]
    assert "sched_" not in llvm.assembly("".join(texts), llvm.target_named("aarch64"))


def test_workers_that_sleep_are_woken(modules):
    data = np.zeros(1000, np.int64)
    run(modules["increment"], data, 1000, 1)
    for _ in range(5):
        time.sleep(0.02)
        run(modules["increment"], data, 1000, 1)
    assert (data == 6).all()


def test_nested_calls_run_on_their_caller(modules):
    data = np.zeros((50, 100), np.int64)
    run(modules["nested"], data, 50, 1, context.current().address)
    assert (data == 1).all()


def test_eight_threads_may_call_at_once(modules):
    arrays = [np.zeros(5000, np.int64) for _ in range(8)]

    def work(array):
        for _ in range(100):
            run(modules["increment"], array, 5000, 10)

    threads = [threading.Thread(target=work, args=(array,)) for array in arrays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all((array == 100).all() for array in arrays)


def test_subnormals_survive_on_every_thread_whatever_the_caller_set(modules):
    """Python sets no flush mode, but a library loaded into the process may (MXCSR bits 6 and 15)."""
    if not llvm.host_target().architecture.startswith("x86"):
        return
    text = """
    declare void @llvm.x86.sse.ldmxcsr(ptr)
    declare void @llvm.x86.sse.stmxcsr(ptr)
    define void @set(i64 %word) {
      %at = alloca i64
      store i64 %word, ptr %at
      call void @llvm.x86.sse.ldmxcsr(ptr %at)
      ret void
    }
    define i64 @get() {
      %at = alloca i64
      store i64 0, ptr %at
      call void @llvm.x86.sse.stmxcsr(ptr %at)
      %word = load i64, ptr %at
      ret i64 %word
    }
    """
    module = llvm.load_object(llvm.compile_object(text, llvm.host_target()))
    set_word = ctypes.PYFUNCTYPE(None, ctypes.c_int64)(module.address("set"))
    get_word = ctypes.PYFUNCTYPE(ctypes.c_int64)(module.address("get"))
    tiny = np.finfo(np.float32).tiny
    data = np.full(10_000, tiny, np.float32)
    before = get_word()
    flushing = before | 1 << 15 | 1 << 6 | 3 << 13  # flush to zero, denormals are zero, round to zero
    set_word(flushing)
    try:
        run(modules["halve"], data, 10_000, 100)
        kept = get_word()
    finally:
        set_word(before)
    assert kept & ~0x3F == flushing & ~0x3F
    assert (data.view(np.int32) == 0x0040_0000).all()


def test_aarch64_shares_set_their_environment_too():
    target = llvm.target_named("aarch64")
    text = pool_text.environment_text("aarch64") + placement_text.placement_text(False) + pool_text.pool_text()
    assembly = llvm.assembly(text, target)
    assert assembly.lower().count("msr\tfpcr") >= 4


def test_stopped_workers_start_again(modules):
    data = np.zeros(100, np.int64)
    run(modules["increment"], data, 100, 1)
    assert pool.POOL.worker_count() >= 1
    pool.POOL.stop()
    assert pool.POOL.worker_count() == 0
    run(modules["increment"], data, 100, 1)
    assert pool.POOL.worker_count() >= 1
    assert (data == 2).all()


def test_fewer_threads_than_before_leave_workers_idle(modules):
    pool.set_num_threads(4)
    data = np.zeros(100, np.int64)
    run(modules["increment"], data, 100, 1)
    assert pool.POOL.worker_count() == 3
    pool.set_num_threads(1)
    assert pool.get_num_threads() == 1
    marks = np.full(1000, -1, np.int64)
    run(modules["mark"], marks, 1000, 1, 0)
    assert (marks == 0).all()  # one share: nobody else joined


def test_threads_that_cannot_start_are_done_without(modules, monkeypatch):
    pool.POOL.stop()
    pool.set_num_threads(3)

    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    data = np.zeros(100, np.int64)
    run(modules["increment"], data, 100, 1)
    assert (data == 1).all()
    assert pool.get_num_threads() == 1


def test_no_threads_are_refused():
    with pytest.raises(ArgumentValueError):
        pool.set_num_threads(0)


def test_workers_are_daemons_parked_outside_python():
    pool.POOL.ensure_started()
    workers = [thread for thread in threading.enumerate() if thread.name.startswith("rushlight")]
    assert workers
    assert all(worker.daemon for worker in workers)
    time.sleep(0.01)
    frames = sys._current_frames()
    assert all(frames[worker.ident].f_code.co_name == "run" for worker in workers)
    assert native.functions().parallel_for == pool.parallel_for_address()
