"""`rushlight cache ls|clear|verify`."""

from collections.abc import Callable
from pathlib import Path

import pytest

from rushlight.cli.caching import age_text, size_text
from rushlight.runtime import objects


@pytest.fixture
def filled(cache: Path) -> Path:
    objects.shared().put("key one", {"object": b"x" * 3000})
    objects.shared().put("key two", {"object": b"y" * 100})
    return cache


def test_ls_lists_entries_and_their_sum(filled: Path, rushlight: Callable):
    ended = rushlight("cache", "ls")
    assert ended.status == 0
    assert "key one" in ended.out
    assert "key two" in ended.out
    assert "2 entries, 3." in ended.out
    assert str(filled) in ended.out


def test_clear_removes_all(filled: Path, rushlight: Callable):
    assert rushlight("cache", "clear").out.startswith("removed 2 entries")
    assert not list(filled.glob("*.rlo"))
    assert "0 entries" in rushlight("cache", "ls").out


def test_verify_finds_what_is_corrupt(filled: Path, rushlight: Callable):
    assert rushlight("cache", "verify").status == 0
    path = sorted(filled.glob("*.rlo"))[0]
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    ended = rushlight("cache", "verify")
    assert ended.status == 1
    assert f"corrupt: {path}" in ended.out
    assert "2 entries, 1 corrupt" in ended.out


def test_sizes_and_ages_read_well():
    assert [size_text(size) for size in (0, 1023, 1536, 3 << 20, 5 << 40)] == [
        "0 B",
        "1023 B",
        "1.5 KiB",
        "3.0 MiB",
        "5120.0 GiB",
    ]
    assert [age_text(seconds) for seconds in (1, 200, 3 * 3600, 86_400 * 5)] == [
        "just now",
        "3 minutes ago",
        "3 hours ago",
        "5 days ago",
    ]
