"""Configs: checked values, and the learning rate of each step."""

import math
from itertools import pairwise

import pytest

from rushlight.demo.config import Config
from rushlight.support.errors import RushlightError


def test_the_rate_rises_to_its_height_and_falls_along_a_cosine():
    config = Config(steps=1100, warm_up=100, learning_rate=0.5, final_rate=0.1)
    rates = [config.rate(step) for step in range(1101)]
    assert rates[0] == pytest.approx(0.005)
    assert rates[99] == rates[100] == 0.5
    assert rates[600] == pytest.approx(0.5 * 0.55)
    assert rates[1100] == pytest.approx(0.05)
    assert all(later <= earlier for earlier, later in pairwise(rates[99:]))
    third = 100 + 1000 / 3
    assert config.rate(int(third)) == pytest.approx(0.5 * (0.1 + 0.9 * (0.5 + 0.5 * math.cos(math.pi / 3))), rel=2e-3)


def test_a_short_run_warms_up_for_a_fifth_of_it():
    assert Config(steps=50, warm_up=100).rate(9) == Config().learning_rate
    assert math.isfinite(Config(steps=1, warm_up=0).rate(0))


@pytest.mark.parametrize(
    "fields", [{"steps": 0}, {"width": 30, "heads": 4}, {"batch": -1}, {"colour": 1}, {"width": "x"}]
)
def test_wrong_fields_are_errors(fields: dict[str, object]):
    with pytest.raises(RushlightError) as caught:
        Config().changed(fields)
    assert caught.value.code == "A002"


def test_text_is_read_as_the_fields_kind():
    config = Config().changed({"width": "32", "learning_rate": "0.5"})
    assert (config.width, config.learning_rate) == (32, 0.5)


def test_a_config_survives_its_dict():
    config = Config(steps=7, learning_rate=0.25)
    assert Config.from_dict(config.to_dict()) == config


@pytest.mark.parametrize("change", [{"width": 2.5}, {"width": None}, {"more": 1}])
def test_a_foreign_dict_is_an_error(change: dict[str, object]):
    with pytest.raises(RushlightError) as caught:
        Config.from_dict({**Config().to_dict(), **change})
    assert caught.value.code == "P005"
