"""`rushlight embed` and `rushlight chat`, with a tokenizer of words."""

import io
import json

import numpy as np
import pytest
from tokenizers import Tokenizer as Library
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

import rushlight as rl
from rushlight.cli import main
from rushlight.models import Embedder
from rushlight.models.tokens import Tokenizer

WORDS = {f"w{number}": number for number in range(96)} | {"end": 96}


@pytest.fixture
def command(capsys):
    """Runs a command; returns its status, output and errors."""

    def run(*arguments):
        with pytest.raises(SystemExit) as ended:
            main([str(item) for item in arguments])
        shown = capsys.readouterr()
        return ended.value.code, shown.out, shown.err

    return run


@pytest.fixture
def spoken(folder_of):
    """`folder_of`, with a tokenizer whose words are w0, w1, and so on."""

    def make(name, **options):
        folder = folder_of(name)
        library = Library(WordLevel(WORDS, unk_token="w0"))
        library.pre_tokenizer = Whitespace()
        library.save(str(folder.path / "tokenizer.json"))
        (folder.path / "tokenizer_config.json").write_text(json.dumps(options))
        return folder

    return make


def test_embed_prints_a_vector_or_a_table(spoken, command):
    folder = spoken("bert")
    status, out, _ = command("embed", folder.path, "w5 w17 w42")
    assert status == 0
    np.testing.assert_allclose(json.loads(out), Embedder(folder).embed(["w5 w17 w42"])[0], atol=1e-6)
    status, out, _ = command("embed", folder.path, "w5 w17", "w8", "w5 w17")
    rows = [line.split() for line in out.splitlines() if line.strip()]
    assert status == 0 and len(rows) == 4
    assert rows[1][-3:] == ["1.000", rows[1][-2], "1.000"] and rows[1][-2] == rows[2][-3] != "1.000"
    assert len(command("embed", folder.path, "w1", "w2", "--vectors")[1].splitlines()) == 2


def test_embed_reads_lines_of_the_input(spoken, command, monkeypatch):
    folder = spoken("bert")
    monkeypatch.setattr("sys.stdin", io.StringIO("w1 w2\n\nw3\n"))
    assert len(command("embed", folder.path, "--vectors")[1].splitlines()) == 2
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    status, _, err = command("embed", folder.path)
    assert status == 1 and "error A004" in err


def test_chat_streams_an_answer_and_says_how_fast(spoken, command, recorded):
    folder = spoken("gpt2")
    prompt = "w5 w17 w42 w3 w88 w21 w60"
    status, out, err = command("chat", folder.path, prompt, "--temperature", 0)
    expected = [f"w{token}" for token in recorded["gpt2"]["tokens"] if token != 96]
    assert status == 0 and out.split() == expected
    assert "7 tokens read" in err and "tokens/s" in err
    again = [command("chat", folder.path, prompt, "--seed", seed, "--temperature", 3)[1] for seed in (1, 1, 2)]
    assert again[0] == again[1] != again[2]


def test_chat_keeps_the_conversation(spoken, command, monkeypatch):
    template = "{% for m in messages %}{{ {'user': 'w1', 'assistant': 'w2'}[m.role] }} {{ m.content }} {% endfor %}w2"
    folder = spoken("llama", chat_template=template)
    tokenizer = Tokenizer(folder)
    messages = [{"role": "user", "content": "w9"}]
    assert tokenizer.encode_prompt(tokenizer.render(messages)) == [1, 9, 2]
    monkeypatch.setattr("sys.stdin", io.StringIO("w9\nw8 w7\n"))
    status, _, err = command("chat", folder.path, "--tokens", 3, "--temperature", 0)
    assert status == 0 and "[3 tokens read" in err and "[10 tokens read" in err


def test_templates_reach_nothing_outside(spoken):
    folder = spoken("llama", chat_template="{{ messages.__class__.__mro__[1].__subclasses__() }}")
    with pytest.raises(rl.CheckpointError):
        Tokenizer(folder).render([])


def test_a_library_that_is_missing_is_named(spoken, monkeypatch):
    folder = spoken("bert")
    monkeypatch.setitem(__import__("sys").modules, "tokenizers", None)
    with pytest.raises(ImportError, match=r"rushlight\[hf\]"):
        Tokenizer(folder)
