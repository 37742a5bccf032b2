"""The protocol between the harness and its workers, and what a wrong, broken, late or dead contestant leads to."""

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rushlight.bench import worker
from rushlight.bench.catalog import CASES
from rushlight.bench.checking import reference
from rushlight.bench.contestants import KINDS, Contestant, Kind, find, frameworks_of
from rushlight.bench.records import Case, Inputs, Work
from rushlight.bench.results import store
from rushlight.bench.serving import Absent, Server, serve
from rushlight.bench.startup import cache_variables, first_call
from rushlight.support.errors import RushlightError

ADD = "add-2-tensors-of-4"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Inputs and expected results of a small case, as the harness leaves them for workers."""
    case = CASES[ADD]
    inputs = case.inputs()
    store(tmp_path / "inputs.npz", inputs)
    store(tmp_path / "expected.npz", {str(number): one for number, one in enumerate(reference(case, inputs))})
    return tmp_path


class Adding:
    """A host whose results are off by some amount."""

    version = "7"

    def __init__(self, off: float = 0.0, problem: Exception | None = None) -> None:
        self.off = off
        self.problem = problem

    def prepare(self, case: Case, inputs: Inputs) -> Work:
        if self.problem is not None:
            raise self.problem
        return lambda: sum(inputs.values()) + np.float32(self.off)

    def arrays(self, result: Any) -> list[Any]:
        return [result]


def ask(host: Adding, *questions: dict[str, Any]) -> list[dict[str, Any]]:
    """The answers to questions, through text."""
    answers = io.StringIO()
    serve(Server(host), [json.dumps(question) for question in questions], answers)
    return [json.loads(line) for line in answers.getvalue().splitlines()]


def test_questions_are_answered_in_order(folder: Path):
    hello, ready, sample, forgotten = ask(
        Adding(),
        {"do": "hello"},
        {"do": "prepare", "case": ADD, "folder": str(folder)},
        {"do": "sample", "repeat": 3, "warm": True},
        {"do": "forget"},
    )
    assert hello == {"status": "ready", "version": "7"}
    assert ready["status"] == "ready"
    assert ready["difference"] < 1e-6
    assert 0 < ready["call_s"] < 1
    assert sample["status"] == "ready"
    assert 0 < sample["seconds"] < 1
    assert forgotten == {"status": "ready"}


def test_a_sample_calls_as_often_as_it_is_told():
    calls: list[int] = []
    server = Server(Adding())
    server.work = lambda: calls.append(1)
    server.sample(5, warm=True)
    assert len(calls) == 6
    server.sample(5, warm=False)
    assert len(calls) == 11


def test_a_wrong_result_is_found_out(folder: Path):
    (answer,) = ask(Adding(off=0.01), {"do": "prepare", "case": ADD, "folder": str(folder)})
    assert answer["status"] == "wrong"
    assert "result 0 is off" in answer["reason"]


def test_nan_is_a_wrong_result(folder: Path):
    (answer,) = ask(Adding(off=float("nan")), {"do": "prepare", "case": ADD, "folder": str(folder)})
    assert (answer["status"], answer["reason"]) == ("wrong", "result 0 has NaN")


def test_an_error_is_an_answer_with_its_trace(folder: Path):
    question = {"do": "prepare", "case": ADD, "folder": str(folder)}
    (answer,) = ask(Adding(problem=ValueError("no such luck")), question)
    assert (answer["status"], answer["reason"]) == ("error", "ValueError: no such luck")
    assert "in prepare" in answer["trace"]
    (answer,) = ask(Adding(problem=Absent("not here")), question)
    assert (answer["status"], answer["reason"]) == ("absent", "not here")


def test_an_interrupt_is_not_an_answer(folder: Path):
    class Interrupted(Adding):
        def prepare(self, case: Case, inputs: Inputs) -> Work:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ask(Interrupted(), {"do": "prepare", "case": ADD, "folder": str(folder)})


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.framework in ("rushlight", "numpy")], ids=str)
def test_a_worker_runs_in_an_interpreter_of_its_own(kind: Kind, folder: Path):
    contestant = Contestant(kind, sys.executable, 1, 60.0, folder)
    try:
        ready = contestant.ask("prepare", case=ADD, folder=str(folder))
        assert ready["status"] == "ready", ready
        assert contestant.version
        assert 0 < contestant.ask("sample", repeat=2, warm=True)["seconds"] < 10
        assert contestant.ask("forget") == {"status": "ready"}
    finally:
        contestant.close()


def fake_python(folder: Path, script: str) -> str:
    """An interpreter that is a shell script."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_a_worker_that_dies_says_why_and_is_started_again(tmp_path: Path):
    python = fake_python(tmp_path, "echo started >> $0.log\necho cannot load it >&2\nexit 3")
    contestant = Contestant(KINDS[0], python, 1, 60.0, tmp_path)
    for _ in range(2):
        answer = contestant.ask("prepare", case=ADD, folder=str(tmp_path))
        assert answer["status"] == "dead"
        assert answer["reason"] == "its process ended with status 3: cannot load it"
    assert (tmp_path / "python.log").read_text() == "started\nstarted\n"


def test_a_worker_that_does_not_answer_is_late(tmp_path: Path):
    contestant = Contestant(KINDS[0], fake_python(tmp_path, "exec sleep 60"), 1, 0.2, tmp_path)
    answer = contestant.ask("forget")
    assert answer == {"status": "late", "reason": "no answer to hello within 0.2 s"}


def test_what_a_framework_prints_does_not_disturb(tmp_path: Path, folder: Path):
    """torch's namesake here prints when it is imported; the worker's answers go elsewhere."""
    (tmp_path / "torch.py").write_text(
        "print('welcome to torch')\n__version__ = '0'\n"
        "import numpy\nsoftmax = float32 = None\n"
        "class Tensor(numpy.ndarray):\n"
        "    detach = lambda self: self\n"
        "    clone = numpy.ndarray.copy\n"
        "    is_floating_point = lambda self: False\n"
        "    numpy = lambda self: numpy.asarray(self)\n"
        "def from_numpy(array): return array.view(Tensor)\n"
        "class nn:\n"
        "    functional = type('functional', (), {'cross_entropy': None})\n"
        "    Module = type('Module', (), {})\n"
        "def set_num_threads(count): pass\n"
        "def compile(function): return function\n"
    )
    python = fake_python(tmp_path, f'PYTHONPATH={tmp_path} exec {sys.executable} "$@"')
    contestant = Contestant(Kind("torch", "torch", "eager"), python, 1, 60.0, tmp_path)
    try:
        ready = contestant.ask("prepare", case=ADD, folder=str(folder))
        assert ready["status"] == "ready", ready
        assert contestant.version == "0"
    finally:
        contestant.close()


def test_a_first_call_that_fails_says_why(tmp_path: Path):
    broken = fake_python(tmp_path, "echo cannot load it >&2; exit 3")
    answer = first_call([broken], 60.0)
    assert (answer["status"], answer["reason"]) == ("dead", "its process ended with status 3: cannot load it")
    assert first_call([fake_python(tmp_path, "exec sleep 60")], 0.2)["status"] == "late"


def test_caches_have_their_states():
    for framework in ("rushlight", "torch", "jax", "tinygrad"):
        off, on = (cache_variables(framework, state, "/cache") for state in ("off", "filled"))
        assert off is not None
        assert on is not None
        assert off != on
        assert any("/cache" in value for value in on.values())
    assert cache_variables("onnxruntime", "off", "/cache") == {}
    assert cache_variables("onnxruntime", "filled", "/cache") is None


def test_an_interpreter_says_what_it_has(tmp_path: Path):
    assert frameworks_of(sys.executable)["numpy"] == np.__version__
    with pytest.raises(RushlightError) as caught:
        frameworks_of(str(tmp_path / "python"))
    assert caught.value.code == "A002"


def test_the_first_interpreter_with_a_framework_is_used(tmp_path: Path):
    python = fake_python(tmp_path, """echo '{"torch": "9", "numpy": "9"}'""")
    field = find([Path(python)], ["torch", "numpy", "jax.jit", "torch.compile"])
    assert {kind.name: used for kind, used in field.pythons.items()} == {
        "rushlight": sys.executable,
        "torch": python,
        "torch.compile": python,
        "numpy": sys.executable,
    }
    assert field.missing == {"jax.jit": "no interpreter here has jax"}


def test_an_unknown_peer_is_an_error():
    with pytest.raises(RushlightError, match="there is no peer abacus"):
        find([], ["abacus"])


def test_the_workers_script_needs_the_standard_library_alone():
    text = Path(worker.__file__).read_text(encoding="utf-8")
    imports = [line for line in text.splitlines() if line.startswith(("import ", "from "))]
    assert not [line for line in imports if "rushlight" in line or "numpy" in line]


def test_a_worker_whose_harness_is_gone_leaves_its_work(folder: Path):
    questions = (
        {"do": "hello"},
        {"do": "prepare", "case": ADD, "folder": str(folder)},
        {"do": "sample", "repeat": 10**12, "warm": False},
    )
    line = [sys.executable, worker.__file__, "numpy", "eager", "1"]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(b"".join([json.dumps(question).encode() + b"\n" for question in questions]))
            process.stdin.flush()
            assert [json.loads(process.stdout.readline())["status"] for _ in range(2)] == ["ready", "ready"]
            process.stdin.close()
            assert process.wait(30) == 0
        finally:
            process.kill()
