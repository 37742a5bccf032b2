"""Damaged and malicious files of weights: a value or a registered error that names the entry, and nothing executed."""

import struct
from collections import Counter

import numpy as np
import pytest

import rushlight as rl
from tools.fuzz import files

COUNT = 50  # of each of the five kinds, with seed 0; `python -m tools.fuzz files` draws more


@pytest.fixture(scope="module", autouse=True)
def process():
    yield
    files.close()


@pytest.mark.parametrize("kind", files.WEIGHTS)
def test_mutated_files_are_read_or_refused(kind):
    skipped = Counter()
    for number in range(COUNT):
        finding = files.judge(files.Mutant(0, number, kind), skipped)
        assert finding is None, finding
    assert skipped[f"{kind}: coded"] > COUNT / 3, skipped


def test_entries_that_share_their_bytes_are_refused(tmp_path):
    np.savez(tmp_path / "a.npz", a=np.ones(2000), b=np.ones(1))
    data = (tmp_path / "a.npz").read_bytes()
    second = data.rindex(b"PK\x01\x02")
    first = data.index(b"PK\x01\x02")
    copied = data[:second] + data[first:second].replace(b"a.npy", b"b.npy") + data[data.rindex(b"PK\x05\x06") :]
    assert struct.unpack_from("<H", copied, copied.rindex(b"PK\x05\x06") + 10) == (2,)
    (tmp_path / "b.npz").write_bytes(copied)
    with pytest.raises(rl.RushlightError) as caught:
        rl.load(tmp_path / "b.npz")
    assert caught.value.code == "P002" and "entry: 'directory'" in str(caught.value)
