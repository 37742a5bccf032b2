"""Archives of the cache: carried to another folder, refused where they are of no use."""

import dataclasses
import json
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import rushlight as rl
from rushlight.build import cache_archive, key, native
from rushlight.runtime import llvm, objects
from rushlight.support import events, settings


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Path]:
    """An archive of a cache that has the code of `program`, and a process that is used to other code for it."""
    with settings.override(cache_dir=str(tmp_path / "first")):
        program()
        cache_archive.pack(objects.shared(), tmp_path / "packed.zip")
    yield tmp_path / "packed.zip"
    llvm._State.host = None


def program() -> list[float]:
    native._loaded.clear()
    return rl.compile(lambda x: x * 3 + x.sin() * 0)(rl.tensor([1.0, 2.0])).tolist()


def rewritten(path: Path, **changes: object) -> Path:
    """A copy of an archive whose manifest says something else."""
    copy = path.with_name("other.zip")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(copy, "w") as new:
        for info in old.infolist():
            data = old.read(info)
            if info.filename == "manifest.json":
                data = json.dumps({**json.loads(data), **changes}).encode()
            new.writestr(info.filename, data)
    return copy


def target_with(**changes: object) -> dict[str, object]:
    return dataclasses.asdict(dataclasses.replace(llvm.host_target(), **changes))


def refused(path: Path, code: str, adopt: bool = False) -> str:
    """The message of an import that is refused, and puts nothing into the cache."""
    cache = objects.ObjectCache(path.with_name("refused"))
    with pytest.raises(rl.CacheError) as caught:
        cache_archive.unpack(path, cache, adopt)
    assert caught.value.code == code
    assert not cache.ls()
    return str(caught.value)


def test_an_archive_fills_an_empty_cache(archive: Path, tmp_path: Path):
    with settings.override(cache_dir=str(tmp_path / "second")):
        cache = objects.shared()
        assert cache_archive.unpack(archive, cache) == len(cache.ls()) > 0
        before = events.count("cache_miss")
        assert program() == [3.0, 6.0]
        assert events.count("cache_miss") == before


def test_the_source_has_one_digest_whenever_it_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    digest, files = key.source_digest(), key._source_files()
    monkeypatch.setattr(key, "_source_files", lambda: [(name, size, changed + 1) for name, size, changed in files])
    key.source_digest.cache_clear()
    with settings.override(cache_dir=str(tmp_path)):
        assert key.source_digest() == digest
    key.source_digest.cache_clear()


def test_the_source_has_another_digest_if_a_module_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    digest, files = key.source_digest(), key._source_files()
    monkeypatch.setattr(key, "_source_files", lambda: files[1:])
    key.source_digest.cache_clear()
    with settings.override(cache_dir=str(tmp_path)):
        assert key.source_digest() != digest
    key.source_digest.cache_clear()


def test_a_changed_byte_is_refused_or_changes_nothing(archive: Path, tmp_path: Path):
    data = archive.read_bytes()
    stored = dict(read(archive))
    for place in range(0, len(data), max(1, len(data) // 150)):
        changed = tmp_path / "changed.zip"
        changed.write_bytes(data[:place] + bytes([data[place] ^ 0x41]) + data[place + 1 :])
        cache = objects.ObjectCache(tmp_path / f"cache{place}")
        try:
            cache_archive.unpack(changed, cache, adopt=True)
        except rl.CacheError as failure:
            assert failure.code in ("K004", "K005")
            assert not cache.ls()
        else:
            assert all(stored[entry.key] == cache.get(entry.key) for entry in cache.ls())


def read(path: Path) -> list[tuple[str, dict[str, bytes]]]:
    return cache_archive._read(path, 1 << 30)[1]


def test_what_is_cut_short_or_missing_is_refused(archive: Path, tmp_path: Path):
    cut = tmp_path / "cut.zip"
    cut.write_bytes(archive.read_bytes()[:-30])
    refused(cut, "K004")
    assert "No such file" in refused(tmp_path / "missing.zip", "K004")
    os.mkfifo(tmp_path / "pipe.zip")
    assert "regular file" in refused(tmp_path / "pipe.zip", "K004")


def test_an_archive_larger_than_the_cache_is_refused(archive: Path, tmp_path: Path):
    cache = objects.ObjectCache(tmp_path / "small", limit_bytes=100)
    with pytest.raises(rl.CacheError, match="cache: the archive is larger than the cache may be"):
        cache_archive.unpack(archive, cache)


def test_an_archive_that_cannot_be_written_leaves_nothing(tmp_path: Path):
    (tmp_path / "folder").write_text("a file")
    with pytest.raises(rl.CacheError, match="cache: the archive cannot be written: Not a directory"):
        cache_archive.pack(objects.ObjectCache(tmp_path / "cache"), tmp_path / "folder" / "packed.zip")
    assert {path.name for path in tmp_path.iterdir()} <= {"folder", "cache"}


def test_other_versions_are_refused(archive: Path):
    assert "another llvmlite" in refused(rewritten(archive, llvmlite="0.1"), "K005")
    assert "another version of Rushlight" in refused(rewritten(archive, source="0" * 40), "K005")


def test_missing_features_are_named(archive: Path):
    target = target_with(cpu="later", features=f"{llvm.host_target().features},+avx1024")
    message = refused(rewritten(archive, target=target), "K005", adopt=True)
    assert "avx1024" in message
    assert "later" in message


def test_code_of_another_processor_is_taken_only_if_asked(archive: Path, tmp_path: Path):
    lesser = rewritten(archive, target=target_with(cpu="x86-64-v2", features="", vector_bytes=16))
    assert "another processor" in refused(lesser, "K005")
    with settings.override(cache_dir=str(tmp_path / "adopted")):
        assert cache_archive.unpack(lesser, objects.shared(), adopt=True)
        assert llvm.host_target().vector_bytes == 16
        llvm._State.host = None
        assert llvm.host_target().cpu == "x86-64-v2", "the next process knows it too"
        assert program() == [3.0, 6.0]
