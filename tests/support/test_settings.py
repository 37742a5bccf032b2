"""Settings: the table, the environment, overriding, the key."""

import os
import subprocess
import sys
import threading

import pytest

from rushlight.support import settings
from rushlight.support.errors import ArgumentRuntimeError, SettingError
from rushlight.support.settings import SETTINGS, Settings, read_environment


def test_environment_is_read_and_typed():
    values = read_environment(
        {
            "RUSHLIGHT_NUM_THREADS": "3",
            "RUSHLIGHT_CACHE": "off",
            "RUSHLIGHT_LOG": "guards, fusion",
            "RUSHLIGHT_DUMP": "~/stages",
            "PATH": "/bin",
        }
    )
    assert values.num_threads == 3 and values.cache is False
    assert values.log == ("guards", "fusion")
    assert values.dump == os.path.expanduser("~/stages")
    assert values.backend == "rushlight" and values.numerics == "strict"


@pytest.mark.parametrize(
    ("variable", "value", "code", "hint"),
    [
        ("RUSHLIGHT_NUM_THREAD", "1", "T001", "did you mean RUSHLIGHT_NUM_THREADS?"),
        ("RUSHLIGHT_num_threads", "1", "T001", "did you mean RUSHLIGHT_NUM_THREADS?"),
        ("RUSHLIGHT_XYZZY", "1", "T001", None),
        ("RUSHLIGHT_NUM_THREADS", "many", "T002", "allowed: an int, 0 or more"),
        ("RUSHLIGHT_OPTIMISE", "3", "T002", "allowed: an int, 0 to 2"),
        ("RUSHLIGHT_CACHE", "maybe", "T002", "allowed: 1 or 0 (on or off, true or false, yes or no)"),
        ("RUSHLIGHT_LOG", "guard", "T003", "did you mean guards?"),
    ],
)
def test_bad_environment_is_an_error(variable: str, value: str, code: str, hint: str | None):
    with pytest.raises(SettingError) as caught:
        read_environment({variable: value})
    assert (caught.value.code, caught.value.hint) == (code, hint)


def test_first_use_reads_the_environment():
    program = "from rushlight.support import settings; print(settings.get().num_threads)"
    for variables, expected in (
        ({"RUSHLIGHT_NUM_THREADS": "5"}, "5"),
        ({"RUSHLIGHT_NUM_THREAD": "5"}, "did you mean RUSHLIGHT_NUM_THREADS?"),
    ):
        clean = {name: value for name, value in os.environ.items() if not name.startswith("RUSHLIGHT_")}
        done = subprocess.run([sys.executable, "-c", program], env=clean | variables, capture_output=True, text=True)
        assert expected in done.stdout + done.stderr


def test_override_is_undone_and_checked():
    before = settings.get()
    with settings.override(numerics="fast", num_threads="2") as within:
        assert settings.get() is within
        assert (within.numerics, within.num_threads) == ("fast", 2)
        with settings.override(num_threads=3):
            assert (settings.get().numerics, settings.get().num_threads) == ("fast", 3)
    assert settings.get() is before
    with pytest.raises(SettingError, match="numeric is not a setting"), settings.override(numeric="fast"):
        pass
    with pytest.raises(SettingError, match="RUSHLIGHT_CACHE has a value"), settings.override(cache=3):
        pass


def test_override_is_of_one_thread_and_update_of_all():
    seen: list[int] = []
    before = settings.get().num_threads
    with settings.override(num_threads=7):
        thread = threading.Thread(target=lambda: seen.append(settings.get().num_threads))
        thread.start()
        thread.join()
        settings.update(num_threads=6)
        assert settings.get().num_threads == 6
    assert seen == [before]
    assert settings.get().num_threads == 6
    settings.update(num_threads=before)


def test_settings_are_not_assigned():
    with pytest.raises(ArgumentRuntimeError, match="num_threads cannot be assigned"):
        settings.get().num_threads = 3


def test_key_has_what_code_depends_on_and_nothing_else():
    with settings.override(num_threads=2, cache_dir="/x", log="code"):
        one = settings.key()
    with settings.override(num_threads=4):
        assert settings.key() == one
    for name, value in (("numerics", "fast"), ("target", "x86-64-v3"), ("nan_asserts", True)):
        with settings.override(**{name: value}):
            assert settings.key() != one
            assert f"{name}={value}" in settings.key()


def test_table_is_typed_and_documented():
    assert len(SETTINGS) >= 13
    for name, row in SETTINGS.items():
        assert row.variable == "RUSHLIGHT_" + name.upper()
        assert row.doc.endswith((".", ")")) and row.kind.allowed
        assert row.read(row.default) == row.default, name
        assert getattr(Settings, name) is row


def test_cache_folder_follows_the_system(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    with settings.override(cache_dir=""):
        assert settings.cache_dir() == os.path.join("/caches", "rushlight")
    monkeypatch.delenv("XDG_CACHE_HOME")
    with settings.override(cache_dir=""):
        assert settings.cache_dir().endswith(os.path.join(".cache", "rushlight"))
    with settings.override(cache_dir="/mine"):
        assert settings.cache_dir() == "/mine"
