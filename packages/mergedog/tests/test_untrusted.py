"""Row 12.2: untrusted text keeps its taint, and every way to lose it raises."""

import copy
import io
import json
import logging
import pickle
import re
from pathlib import Path

import pytest

from mergedog.prompt import Prompt
from mergedog.untrusted import TaintError, Untrusted, composed, joined, reveal, trusted

EVIL = Untrusted("rm -rf /", "title")

LAUNDERINGS = {
    "str": lambda text: str(text),
    "f-string": lambda text: f"{text}",
    "f-string of width": lambda text: f"{text:>30}",
    "f-string of str": lambda text: f"{text!s}",
    "format": lambda text: "{}".format(text),  # noqa: UP032
    "format by name": lambda text: "{a}".format(a=text),  # noqa: UP032
    "format function": lambda text: format(text),
    "percent": lambda text: "%s" % text,  # noqa: UP031
    "percent of a tuple": lambda text: "%s" % (text,),  # noqa: UP031
    "percent on the left": lambda text: text % ("a",),
    "join": lambda text: "".join([text]),
    "join of characters": lambda text: "".join(text),
    "replace": lambda text: "a".replace("a", text),
    "add to bytes": lambda text: b"" + text,
    "bytes": lambda text: bytes(text),
    "json": lambda text: json.dumps(text),
    "json key": lambda text: json.dumps({text: 1}),
    "json in a list": lambda text: json.dumps([text]),
    "json with default": lambda text: json.dumps([text], default=str),
    "pickle": lambda text: pickle.dumps(text),
    "write": lambda text: io.StringIO().write(text),
    "print": lambda text: print(text, file=io.StringIO()),
    "path": lambda text: Path(text),
    "open": lambda text: open(text),  # noqa: SIM115
    "int": lambda text: int(text),
    "float": lambda text: float(text),
    "index": lambda text: [1][text],
    "in": lambda text: "rm" in text,
    "compare": lambda text: text == "rm -rf /",
    "regular expression": lambda text: re.sub("a", "b", text),
    "str method": lambda text: str.upper(text),
    "trusted": lambda text: trusted(text),
    "prompt instruction": lambda text: Prompt().say(text),
    "prompt fact": lambda text: Prompt().fact("a", text),
    "prompt label": lambda text: Prompt().show(text, text),
    "untrusted of it": lambda text: Untrusted(text, "other"),
}


@pytest.mark.row("12.2")
@pytest.mark.parametrize("how", LAUNDERINGS)
def test_laundering_raises(how):
    with pytest.raises(TypeError):
        LAUNDERINGS[how](EVIL)


def test_it_is_no_str():
    assert not isinstance(EVIL, str)
    with pytest.raises(AttributeError):
        EVIL.upper()
    assert "rm" not in repr(EVIL)


def test_a_log_shows_no_text(caplog, capsys):
    logging.getLogger("x").warning("it is %r", EVIL)
    assert "rm -rf" not in caplog.text + capsys.readouterr().err


@pytest.mark.row("12.2")
def test_operations_keep_the_taint():
    log = Untrusted("two\nlines", "log")
    kept = [
        *(EVIL[1:], EVIL[0], EVIL + "a", "a" + EVIL, EVIL + log, EVIL * 2, EVIL.strip(), *log.lines(), *EVIL),
        *(EVIL.join_with(", ", ["a", log]), joined("-", ["a", EVIL]), composed("{}: {}", "a", EVIL)),
        *(EVIL.substitute(re.compile("r"), "R"), copy.copy(EVIL), copy.deepcopy(EVIL)),
    ]
    assert all(type(each) is Untrusted for each in kept)
    assert (EVIL + log).source == "log+title"
    assert reveal(composed("{}: {}!", "a", EVIL), "a test") == "a: rm -rf /!"
    assert reveal(EVIL.join_with(", ", ["a", log]), "a test") == "rm -rf /, a, two\nlines"


def test_questions_answer_without_text():
    assert EVIL.contains("rm") and not EVIL.contains("cp")
    assert EVIL.matches(re.compile(r"-r[f]")) and len(EVIL) == 8
    assert Untrusted("rm -rf /", "log") == EVIL and hash(EVIL) == hash(Untrusted("rm -rf /", "log"))


def test_revealing_is_logged_without_the_text(caplog):
    with caplog.at_level(logging.INFO, "mergedog.revealed"):
        assert reveal(EVIL, "a test") == "rm -rf /"
    assert caplog.messages == ["revealed 8 characters from title: a test"]
    with pytest.raises(TaintError):
        reveal("plain", "a test")


def test_a_subclass_of_str_is_not_trusted():
    class Sly(str):
        pass

    for sink in (trusted, Prompt().say, lambda text: Untrusted(text, "a")):
        with pytest.raises(TaintError):
            sink(Sly("text"))


def test_a_fact_is_one_printable_line():
    for value in ("a\nb", "a\x1b[0m", "a\u202eb"):
        with pytest.raises(TaintError):
            Prompt().fact("tag", value)
