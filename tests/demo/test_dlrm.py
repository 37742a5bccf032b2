"""The demo of click models."""

import io

import numpy as np
import pytest
from rich.console import Console

from rushlight import distributed as dist
from rushlight.demo.clicks import FEATURES, ROWS, ClickLog, area_under_curve
from rushlight.demo.dlrm import Training, train


def test_the_area_is_the_share_of_pairs_in_order():
    rng = np.random.default_rng(0)
    scores, clicked = rng.integers(0, 20, 300).astype(float), (rng.random(300) < 0.3).astype(float)
    pairs = [0.5 if high == low else float(high > low) for high in scores[clicked > 0] for low in scores[clicked == 0]]
    assert area_under_curve(scores, clicked) == pytest.approx(np.mean(pairs), abs=1e-12)


def test_logs_are_drawn_by_seed_and_ids_by_their_ranks():
    first, again = (ClickLog(3).batch(np.random.default_rng(1), 2000) for _ in range(2))
    assert first.ids.values().tolist() == again.ids.values().tolist()
    assert first.ids.keys() == list(FEATURES)
    for key, rows in zip(FEATURES, ROWS, strict=True):
        counts = np.bincount(first.ids[key].values().numpy(), minlength=rows)
        assert len(counts) == rows
        assert counts[0] == counts.max() > 2000 / rows
    assert area_under_curve(first.odds, first.clicked.numpy()) > 0.7


def test_training_nears_the_best_area():
    text = io.StringIO()
    outcome = train(Training(seconds=600, steps=40, batch=2048, held_out=20000), Console(file=text, width=100))
    assert outcome.steps == 40
    assert 0.6 < outcome.area < outcome.best < 0.9
    assert outcome.loss < 0.62
    assert f"AUC {outcome.area:.4f} of {outcome.best:.4f}" in text.getvalue()


def test_ranks_divide_the_tables_and_near_the_best_area_together():
    text = io.StringIO()
    given = Training(seconds=600, steps=40, batch=2048, held_out=20000, every=600)
    outcomes = dist.spawn(lambda: train(given, Console(file=text, width=100)), 2)
    assert outcomes[0].steps == outcomes[1].steps == 40
    assert outcomes[0].area == outcomes[1].area and 0.6 < outcomes[0].area < outcomes[0].best
    printed = text.getvalue().splitlines()
    assert [line.partition(":")[0] for line in printed[: len(FEATURES)]] == [f"{name}_table" for name in FEATURES]
    assert len(printed) == len(FEATURES) + 2
