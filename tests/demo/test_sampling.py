"""Drawing bytes from logits."""

import numpy as np
import pytest

from rushlight.demo.sampling import continue_text, draw, to_text
from rushlight.support.errors import RushlightError


def logits_of(**weights: float) -> np.ndarray:
    logits = np.full(256, -10, np.float32)
    for sign, weight in weights.items():
        logits[ord(sign)] = weight
    return logits


def test_zero_temperature_takes_the_likeliest():
    generator = np.random.default_rng(0)
    assert {draw(logits_of(a=1, b=1.01), generator, 0, 40) for _ in range(20)} == {ord("b")}


def test_only_the_top_k_are_drawn_in_proportion():
    generator = np.random.default_rng(0)
    drawn = [draw(logits_of(a=1, b=1 + np.log(3), c=0.9), generator, 1, 2) for _ in range(2000)]
    assert set(drawn) == {ord("a"), ord("b")}
    assert drawn.count(ord("b")) / drawn.count(ord("a")) == pytest.approx(3, rel=0.2)


def test_high_temperatures_level_the_odds():
    generator = np.random.default_rng(0)
    drawn = [draw(logits_of(a=0, b=4), generator, 100, 2) for _ in range(2000)]
    assert drawn.count(ord("b")) / 2000 == pytest.approx(0.51, abs=0.05)


def test_the_model_sees_at_most_its_context():
    seen: list[bytes] = []

    def next_byte(tokens: np.ndarray) -> np.ndarray:
        assert tokens.shape[0] == 1
        seen.append(bytes(tokens[0].astype(np.uint8)))
        return logits_of(**{chr(97 + len(seen)): 5})

    assert continue_text(next_byte, b"xyz", 4, context=5, temperature=0) == b"bcde"
    assert seen == [b"xyz", b"xyzb", b"xyzbc", b"yzbcd"]


def test_an_empty_prompt_is_a_new_line():
    seen: list[bytes] = []

    def next_byte(tokens: np.ndarray) -> np.ndarray:
        seen.append(bytes(tokens[0].astype(np.uint8)))
        return logits_of(a=1)

    assert continue_text(next_byte, b"", 2, context=8, temperature=0) == b"aa"
    assert seen == [b"\n", b"\na"]


def test_equal_seeds_draw_equal_texts():
    flat = np.zeros(256, np.float32)
    texts = [continue_text(lambda tokens: flat, b"a", 30, 8, seed=seed) for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.parametrize("wrong", [{"temperature": -1.0}, {"top_k": 0}])
def test_wrong_options_are_errors(wrong: dict[str, float]):
    with pytest.raises(RushlightError, match="at least"):
        continue_text(lambda tokens: logits_of(a=1), b"a", 1, 8, **wrong)


def test_bytes_that_are_no_text_cannot_harm_a_terminal():
    assert to_text(b"caf\xc3\xa9\n\tx\x1b[31m\xff\x00") == "café\n\tx[31m\ufffd"
