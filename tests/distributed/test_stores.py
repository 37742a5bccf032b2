"""Stores: the values of PyTorch's, by one list for each kind, and what several processes and ranks see of one."""

from __future__ import annotations

import subprocess
import sys
import time
from datetime import timedelta

import pytest

import rushlight as rl
from rushlight import distributed as dist

_opened: list[dist.TCPStore] = []


@pytest.fixture(autouse=True)
def _closed():
    yield
    while _opened:
        _opened.pop().close()


def tcp(*args, **options):
    _opened.append(dist.TCPStore("127.0.0.1", *args, **options))
    return _opened[-1]


KINDS = ["hash", "file", "tcp", "prefix"]


def make(kind: str, folder):
    if kind == "file":
        return dist.FileStore(folder / "store", 1)
    if kind == "tcp":
        return tcp(0, 1, True, timedelta(seconds=20))
    return dist.HashStore() if kind == "hash" else dist.PrefixStore("pre", dist.HashStore())


def short(store):
    store.set_timeout(timedelta(milliseconds=50))
    return store


@pytest.mark.parametrize("kind", KINDS)
def test_values_are_those_of_pytorch(kind: str, tmp_path) -> None:
    store = make(kind, tmp_path)
    assert store.set("k", "v") is None and store.get("k") == b"v"
    store.set("b", b"\x00\xff\n")
    assert store.get("b") == b"\x00\xff\n"
    assert [store.add("n", 3), store.add("n", -5), store.get("n")] == [3, -2, b"-2"]
    store.set("m", "7")
    assert store.add("m", 1) == 8
    assert [store.check(["k"]), store.check(["k", "zz"]), store.check([])] == [True, False, True]
    assert store.compare_set("c", "", "one") == b"one"
    assert store.compare_set("c", "two", "three") == b"one"
    assert store.compare_set("c", "one", "three") == b"three"
    assert store.compare_set("c", "", "four") == b"three"
    assert store.compare_set("d", "x", "y") == b"x" and not store.check(["d"])
    store.append("a", "po")
    store.append("a", "tato")
    assert store.get("a") == b"potato"
    store.multi_set(["x", "y"], ["1", "2"])
    assert store.multi_get(["x", "y"]) == [b"1", b"2"] and store.multi_get([]) == []
    assert sorted(set(store.list_keys()) - {"init/"}) == ["a", "b", "c", "k", "m", "n", "x", "y"]
    assert store.num_keys() == len(store.list_keys()) and store.has_extended_api()
    store.wait(["k", "a"])
    store.set("", "empty")
    assert store.get("") == b"empty" and store.clone().get("k") == b"v"
    assert store.timeout in (timedelta(seconds=300), timedelta(seconds=20))


@pytest.mark.parametrize("kind", KINDS)
def test_queues_and_barriers(kind: str, tmp_path) -> None:
    store = make(kind, tmp_path)
    assert store.queue_len("q") == 0
    store.queue_push("q", "a")
    store.queue_push("q", "b")
    assert store.queue_len("q") == 2 and store.check(["q"])
    assert [store.queue_pop("q"), store.queue_pop("q")] == [b"a", b"b"]
    with pytest.raises(dist.QueueEmptyError):
        store.queue_pop("q", False)
    store.barrier("all", 1)
    with pytest.raises(dist.DistStoreError):
        store.barrier("more", 2, timedelta(milliseconds=20))


@pytest.mark.parametrize("kind", KINDS)
def test_what_never_comes_is_an_error_at_the_deadline(kind: str, tmp_path) -> None:
    store = short(make(kind, tmp_path))
    assert store.timeout == timedelta(milliseconds=50)
    for call in (
        lambda: store.get("zz"),
        lambda: store.wait(["zz"]),
        lambda: store.wait(["zz"], timedelta(milliseconds=10)),
        lambda: store.queue_pop("zz"),
    ):
        begin = time.monotonic()
        with pytest.raises(dist.DistStoreError, match="zz did not come within") as found:
            call()
        assert found.value.code == "W007" and time.monotonic() - begin < 5


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda store: store.set(3, "x"), "A001"),
        (lambda store: store.set("x", 3), "A001"),
        (lambda store: store.add("x", 1.5), "A001"),
        (lambda store: store.add("word", 1), "A002"),
        (lambda store: store.multi_set(["x", "y"], ["1"]), "A002"),
        (lambda store: store.set_timeout(3), "A001"),
    ],
)
def test_misuse_is_said(kind: str, call, code: str, tmp_path) -> None:
    store = make(kind, tmp_path)
    store.set("word", "abc")
    with pytest.raises(rl.RushlightError) as found:
        call(store)
    assert found.value.code == code and store.get("word") == b"abc"


@pytest.mark.parametrize("kind", ["hash", "tcp", "prefix"])
def test_keys_are_removed(kind: str, tmp_path) -> None:
    store = make(kind, tmp_path)
    store.set("k", "v")
    assert [store.delete_key("k"), store.delete_key("k"), store.check(["k"])] == [True, False, False]


def test_a_file_keeps_its_keys(tmp_path) -> None:
    store = make("file", tmp_path)
    store.set("k", "v")
    with pytest.raises(rl.RushlightError, match="keeps its keys"):
        store.delete_key("k")
    assert dist.FileStore(store.path).get("k") == b"v"
    (tmp_path / "other").write_text("hello")
    with pytest.raises(rl.RushlightError, match="is no store"):
        dist.FileStore(tmp_path / "other")
    with pytest.raises(rl.RushlightError, match="cannot be written"):
        dist.FileStore(tmp_path / "no" / "store")


def test_a_prefix_is_that_of_the_keys_below() -> None:
    below = dist.HashStore()
    store = dist.PrefixStore("a", dist.PrefixStore("b", below))
    store.set("k", "v")
    assert below.list_keys() == ["b/a/k"] and store.list_keys() == ["k"] and store.underlying_store.prefix == "b"
    with pytest.raises(rl.RushlightError, match="a store is expected"):
        dist.PrefixStore("a", {})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_ranks_on_threads_wait_for_each_other(kind: str, seed: int, tmp_path) -> None:
    store = make(kind, tmp_path)

    def run():
        rank = dist.get_rank()
        found = store.get(f"of {rank - 1}") if rank else b"0"
        store.set(f"of {rank}", str(int(found) + rank))
        store.barrier("end", 3)
        return store.get("of 2")

    assert dist.spawn(run, 3, seed=seed) == [b"3"] * 3


PROGRAM = """
import sys
from datetime import timedelta
from rushlight import distributed as dist
kind, where = sys.argv[1:]
if kind == "file":
    store = dist.FileStore(where)
else:
    store = dist.TCPStore("127.0.0.1", int(where), 2, False, timedelta(seconds=60))
for _ in range(100):
    store.add("count", 1)
store.set("answer", store.get("question") + b"!")
"""


@pytest.mark.parametrize("kind", ["file", "tcp"])
def test_two_processes_share_a_store(kind: str, tmp_path) -> None:
    if kind == "file":
        store, where = make("file", tmp_path), str(tmp_path / "store")
    else:
        store = tcp(0, 2, True, timedelta(seconds=60), wait_for_workers=False)
        where = str(store.port)
    other = subprocess.Popen([sys.executable, "-c", PROGRAM, kind, where])
    for _ in range(100):
        store.add("count", 1)
    store.set("question", b"why\n")
    assert store.get("answer") == b"why\n!" and other.wait(60) == 0
    assert store.get("count") == b"200"


def test_who_connects_is_awaited() -> None:
    with pytest.raises(dist.DistStoreError, match="1 of 2 have connected"):
        tcp(0, 2, True, timedelta(milliseconds=100))
    with pytest.raises(dist.DistStoreError, match="nobody serves"):
        tcp(1, None, False, timedelta(milliseconds=100))
    store = tcp(0, 1, True, timedelta(seconds=5))
    with pytest.raises(rl.DistError, match="cannot be served"):
        tcp(store.port, 1, True, timedelta(seconds=5))
    same = tcp(store.port, 1, True, timedelta(seconds=5), multi_tenant=True)
    same.set("k", "v")
    assert store.get("k") == b"v" and store.get("init/") == b"2"


def test_a_server_that_is_gone_is_said() -> None:
    server = tcp(0, None, True, timedelta(seconds=5))
    tcp(server.port, None, False, timedelta(seconds=5)).set("k", "v")
    server.close()
    with pytest.raises(rl.DistError, match="nobody serves"):
        tcp(server.port, None, False, timedelta(milliseconds=100))
