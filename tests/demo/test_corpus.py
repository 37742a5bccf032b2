"""The corpus: which files, split how, and batches that depend on seed and step alone."""

import sysconfig
from pathlib import Path

import numpy as np
import pytest

from rushlight.demo.corpus import Corpus, is_held_out, read_corpus, source_files
from rushlight.support.errors import RushlightError


def write(root: Path, name: str, text: str = "x = 1\n") -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


def test_tests_tables_and_packages_are_left_out(tmp_path: Path):
    for name in ("abc.py", "json/decoder.py", "unittest/case.py", "attest.py"):
        write(tmp_path, name)
    for name in (
        "test/a.py",
        "test_x.py",
        "json/tests/a.py",
        "unittest/test/a.py",
        "encodings/a.py",
        "pydoc_data/a.py",
    ):
        write(tmp_path, name)
    for name in ("idlelib/a.py", "lib2to3/a.py", "site-packages/numpy/a.py", "dist-packages/a.py", "readme.txt"):
        write(tmp_path, name)
    found = [path.relative_to(tmp_path).as_posix() for path in source_files(tmp_path)]
    assert found == ["abc.py", "attest.py", "json/decoder.py", "unittest/case.py"]


def test_the_split_is_by_relative_path_alone(tmp_path: Path):
    names = [f"package/module_{number}.py" for number in range(300)]
    held_out = [name for name in names if is_held_out(name)]
    assert 15 <= len(held_out) <= 50
    for name in names:
        write(tmp_path / "one", name, f"# {name}\n" * 20)
        write(tmp_path / "two", name, f"# {name}\n" * 20)
    one, two = read_corpus(tmp_path / "one"), read_corpus(tmp_path / "two")
    assert one.files == (300 - len(held_out), len(held_out))
    assert one.train.tobytes() == two.train.tobytes()
    assert held_out[0].encode() in one.held_out.tobytes()
    assert held_out[0].encode() not in one.train.tobytes()


def test_the_standard_library_is_enough_text():
    corpus = read_corpus()
    assert len(corpus.train) > 3_000_000
    assert len(corpus.held_out) > 200_000
    assert b"def " in corpus.held_out.tobytes()
    assert str(Path(sysconfig.get_path("stdlib"))).encode() not in corpus.held_out.tobytes()[:100]


def test_too_little_text_is_an_error(tmp_path: Path):
    write(tmp_path, "one.py")
    with pytest.raises(RushlightError) as caught:
        read_corpus(tmp_path)
    assert caught.value.code == "P008"


def test_batches_are_a_function_of_seed_and_step():
    text = np.arange(50_000, dtype=np.uint16).astype(np.uint8)
    corpus = Corpus(text, text[:5000], (1, 1))
    batch = corpus.batch(seed=3, step=7, count=4, length=9)
    assert batch.shape == (4, 9)
    assert batch.dtype == np.int64
    corpus.batch(seed=3, step=8, count=4, length=9)
    assert (corpus.batch(seed=3, step=7, count=4, length=9) == batch).all()
    assert (corpus.batch(seed=3, step=8, count=4, length=9) != batch).any()
    assert (corpus.batch(seed=4, step=7, count=4, length=9) != batch).any()
    assert (np.diff(batch, axis=1) % 256 == 1).all()


def test_held_out_windows_are_spread_and_fixed():
    text = np.arange(1000).astype(np.uint8)
    corpus = Corpus(text, text, (1, 1))
    windows = corpus.held_out_windows(10, 33)
    starts = corpus.held_out_starts(10, 33)
    assert windows.shape == (10, 33)
    assert starts[0] == 0
    assert starts[-1] == len(text) - 33
    assert (windows[:, 0] == starts % 256).all()
    assert len(corpus.held_out_windows(100, 33)) == 1000 // 33
