"""The object cache: what is stored comes back, and whatever is wrong with the disk costs a warning at most."""

import hashlib
import os
import stat
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest

from rushlight.runtime import objects
from rushlight.runtime.objects import ObjectCache, shared
from rushlight.support import settings
from rushlight.support.errors import CacheWarning, forget_warnings

SECTIONS = {"object": bytes(range(256)) * 10, "plan": b'{"a": 1}', "empty": b""}


@pytest.fixture(autouse=True)
def fresh_warnings():
    forget_warnings()
    yield
    forget_warnings()


@pytest.fixture
def cache(tmp_path):
    return ObjectCache(tmp_path / "cache")


def test_sections_come_back_in_another_process_as_in_this_one(cache):
    assert cache.get("key") is None
    cache.put("key", SECTIONS)
    again = ObjectCache(cache.directory)
    assert cache.get("key") == again.get("key") == SECTIONS
    assert list(again.get("key")) == list(SECTIONS)
    assert (cache.counts.hits, cache.counts.misses, cache.counts.writes) == (1, 1, 1)


def test_folder_and_files_are_private(cache):
    cache.put("key", SECTIONS)
    assert stat.S_IMODE(cache.directory.stat().st_mode) == 0o700
    assert [stat.S_IMODE(entry.path.stat().st_mode) for entry in cache.ls()] == [0o600]


def test_lax_mode_is_made_private(tmp_path):
    (tmp_path / "lax").mkdir(mode=0o777)
    (tmp_path / "lax").chmod(0o777)
    ObjectCache(tmp_path / "lax").put("key", SECTIONS)
    assert stat.S_IMODE((tmp_path / "lax").stat().st_mode) == 0o700


def test_every_flipped_byte_is_noticed(cache):
    cache.put("key", {"object": b"0123456789"})
    path = cache.ls()[0].path
    good = path.read_bytes()
    for position in range(len(good)):
        path.write_bytes(good[:position] + bytes([good[position] ^ 1]) + good[position + 1 :])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert ObjectCache(cache.directory).get("key") is None, position


def test_corrupt_entry_warns_once_and_is_written_again(cache):
    for key in ("one", "two"):
        cache.put(key, SECTIONS)
    for entry in cache.ls():
        entry.path.write_bytes(entry.path.read_bytes()[:-1])
    assert len(cache.verify()) == 2
    with pytest.warns(CacheWarning, match="corrupt"):
        assert cache.get("one") is None
    assert cache.get("two") is None  # warnings are errors here: a second one would raise
    assert cache.counts.corrupt == 2
    cache.put("one", SECTIONS)
    assert cache.get("one") == SECTIONS
    assert cache.verify() == []


def use_in_memory(cache, code, match=""):
    with pytest.warns(CacheWarning, match=match) as caught:
        cache.put("key", SECTIONS)
    cache.put("other", SECTIONS)  # warnings are errors here: a second one would raise
    assert [warning.message.code for warning in caught] == [code]
    assert cache.get("key") == SECTIONS
    assert cache.ls() == []


def test_file_in_place_of_the_folder_keeps_entries_in_memory(tmp_path):
    (tmp_path / "file").write_text("")
    use_in_memory(ObjectCache(tmp_path / "file"), "K001")
    use_in_memory(ObjectCache(tmp_path / "file" / "below"), "K001")


def test_symbolic_link_is_refused(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    use_in_memory(ObjectCache(tmp_path / "link"), "K001", "symbolic link")
    assert list((tmp_path / "real").iterdir()) == []


def test_folder_of_another_user_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    use_in_memory(ObjectCache(tmp_path / "cache"), "K001", "another user")


def test_full_disk_keeps_entries_in_memory(cache):
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    cache.ls()
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        use_in_memory(cache, "K003")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(cache.directory.iterdir()) == []


def test_no_folder_means_memory_without_a_warning():
    cache = ObjectCache(None, limit_bytes=5000)
    cache.put("a", {"x": bytes(3000)})
    cache.put("b", {"x": bytes(3000)})
    assert cache.get("a") is None
    assert cache.get("b") == {"x": bytes(3000)}
    assert cache.clear() == 1


def test_least_recently_used_go_first(tmp_path):
    cache = ObjectCache(tmp_path / "cache", limit_bytes=10_000)
    now = time.time()
    for i in range(8):
        cache.put(f"key{i}", {"x": bytes(1000)})
        path = next(entry.path for entry in cache.ls() if entry.key == f"key{i}")
        os.utime(path, (now - 100_000 + i, now - 100_000 + i))
    assert cache.get("key0") is not None  # used: now the newest
    for i in range(8, 14):
        cache.put(f"key{i}", {"x": bytes(1000)})
    cache.sweep()
    left = {entry.key for entry in cache.ls()}
    assert cache.size_bytes() <= 10_000
    assert "key0" in left
    assert "key1" not in left
    assert "key13" in left


def test_among_many_entries_a_sweep_looks_at_one_share(tmp_path, monkeypatch):
    monkeypatch.setattr(objects, "_MANY", 10)
    full, cache = ObjectCache(tmp_path / "cache"), ObjectCache(tmp_path / "cache", limit_bytes=16_000)
    for i in range(64):
        full.put(f"key{i}", {"x": bytes(1000)})
    share = min(entry.path.name[0] for entry in cache.ls())
    before = {entry.path.name for entry in cache.ls()}
    cache.sweep(share)
    gone = before - {entry.path.name for entry in cache.ls()}
    assert gone
    assert all(name.startswith(share) for name in gone)
    assert sum(entry.size_bytes for entry in cache.ls() if entry.path.name.startswith(share)) <= 1_000


def test_a_folder_of_many_entries_stays_within_its_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(objects, "_MANY", 10)
    cache = ObjectCache(tmp_path / "cache", limit_bytes=50_000)
    for i in range(600):
        cache.put(f"key{i}", {"x": bytes(1000)})
    assert 20_000 < cache.size_bytes() <= 70_000


def test_sweeps_happen_by_themselves(tmp_path):
    cache = ObjectCache(tmp_path / "cache", limit_bytes=20_000)
    for i in range(100):
        cache.put(f"key{i}", {"x": bytes(1000)})
    assert cache.size_bytes() <= 21_000
    assert cache.counts.evicted > 50


def test_entry_larger_than_the_limit_is_not_written(tmp_path):
    cache = ObjectCache(tmp_path / "cache", limit_bytes=1000)
    cache.put("key", {"x": bytes(2000)})
    assert cache.ls() == []


def test_stale_partial_files_are_removed(cache):
    cache.put("key", SECTIONS)
    stale, young = cache.directory / "a.part", cache.directory / "b.part"
    stale.write_bytes(b"")
    young.write_bytes(b"")
    os.utime(stale, (1, 1))
    assert len(cache.ls()) == 1
    assert not stale.exists()
    assert young.exists()


def test_threads_may_share_a_cache(cache):
    def work(i):
        for j in range(20):
            cache.put(f"key{j}", {"x": bytes([j]) * 100})
            assert cache.get(f"key{j}") == {"x": bytes([j]) * 100}
        return i

    with ThreadPoolExecutor(4) as threads:
        assert sorted(threads.map(work, range(4))) == [0, 1, 2, 3]
    assert cache.verify() == []
    assert cache.clear() == 20
    assert cache.ls() == []


def test_shared_cache_follows_the_settings(tmp_path):
    with settings.override(cache_dir=str(tmp_path / "elsewhere")):
        shared().put("key", SECTIONS)
        assert shared().directory == tmp_path / "elsewhere"
    assert shared().get("key") is None
    with settings.override(cache=False):
        assert shared().directory is None


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["pipe", "folder"])
def test_what_is_no_file_under_an_entrys_name_is_a_miss(cache, make):
    cache.put("key", SECTIONS)
    (path,) = cache.directory.glob("*.rlo")
    path.unlink()
    make(path)
    with pytest.warns(CacheWarning):
        assert cache.get("key") is None
    cache.ls()
    cache.verify()


def test_a_table_that_reaches_beyond_the_file_is_corrupt(cache):
    cache.put("key", SECTIONS)
    (path,) = cache.directory.glob("*.rlo")
    data = bytearray(path.read_bytes())
    for place in (44, 48, 52):  # bytes of the key, number of sections, the first bytes of the key
        changed = data[:place] + b"\xff\xff\xff\x7f" + data[place + 4 :]
        changed[12:44] = hashlib.blake2b(changed[44:], digest_size=32).digest()
        path.write_bytes(changed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert cache.get("key") is None
