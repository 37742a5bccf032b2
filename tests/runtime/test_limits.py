"""Threads and memory follow affinity and the control groups' limits."""

import os

import pytest

from rushlight.runtime.limits import available_cores, cpu_quota, memory_bytes, memory_quota


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(("text", "quota"), [("max 100000", None), ("150000 100000", 1.5), ("", None)])
def test_version_2_reads_cpu_max(tmp_path, text, quota):
    write(tmp_path / "self", "0::/a/b\n")
    write(tmp_path / "fs/a/b/cpu.max", text)
    assert cpu_quota(tmp_path / "fs", tmp_path / "self") == quota


def test_the_least_quota_on_the_way_up_counts(tmp_path):
    write(tmp_path / "self", "0::/a/b\n")
    write(tmp_path / "fs/a/b/cpu.max", "800000 100000")
    write(tmp_path / "fs/a/cpu.max", "300000 100000")
    write(tmp_path / "fs/cpu.max", "max 100000")
    assert cpu_quota(tmp_path / "fs", tmp_path / "self") == 3


@pytest.mark.parametrize(("quota", "expected"), [("-1", None), ("200000", 2)])
def test_version_1_reads_the_cpu_controller(tmp_path, quota, expected):
    write(tmp_path / "self", "5:memory:/x\n4:cpu,cpuacct:/x\n")
    write(tmp_path / "fs/cpu,cpuacct/x/cpu.cfs_quota_us", quota)
    write(tmp_path / "fs/cpu,cpuacct/x/cpu.cfs_period_us", "100000")
    assert cpu_quota(tmp_path / "fs", tmp_path / "self") == expected


@pytest.mark.parametrize(
    ("membership", "file", "text", "expected"),
    [
        ("0::/a", "a/memory.max", "1048576", 1 << 20),
        ("0::/a", "a/memory.max", "max", None),
        ("3:memory:/a", "memory/a/memory.limit_in_bytes", "4096", 4096),
    ],
)
def test_memory_is_bounded_too(tmp_path, membership, file, text, expected):
    write(tmp_path / "self", membership)
    write(tmp_path / "fs" / file, text)
    assert memory_quota(tmp_path / "fs", tmp_path / "self") == expected
    assert memory_bytes() > 1 << 28


def test_no_control_groups_is_no_limit(tmp_path):
    assert cpu_quota(tmp_path, tmp_path / "missing") is None


def test_affinity_bounds_the_cores():
    assert 1 <= available_cores() <= (os.cpu_count() or 1)
    if hasattr(os, "sched_setaffinity"):
        allowed = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(allowed)})
        try:
            assert available_cores() == 1
        finally:
            os.sched_setaffinity(0, allowed)
