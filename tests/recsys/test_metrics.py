"""Metrics give what torchrec 1.8 gave for the batches in metrics_answers.json; ranks add up."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight import distributed as dist
from rushlight.recsys import metrics
from rushlight.support.errors import RushlightError

RECORDED = json.loads(Path(__file__).with_name("metrics_answers.json").read_text())
TASKS = [metrics.RecTaskInfo(f"t{place}", f"l{place}", f"p{place}", f"w{place}") for place in range(2)]


def metric(name: str, ranks: int = 1, **options: Any) -> metrics.RecMetric:
    return getattr(metrics, name)(ranks, 0, 8, TASKS, window_size=16 * ranks, **options)


def feed(one: metrics.RecMetric, batch: Any, weighted: bool) -> None:
    given = {kind: {task: rl.tensor(numbers) for task, numbers in batch[kind].items()} for kind in batch}
    one.update(**{**given, "weights": given["weights"] if weighted else None})


def values(found: Any) -> dict[str, float]:
    return {key: value.item() for key, value in found.items()}


@pytest.mark.parametrize("place", range(len(RECORDED["answers"])))
def test_values_are_torchrecs(place: int):
    name, options, weighted, empty, after, local = RECORDED["answers"][place]
    one = metric(name, **options)
    wanted = {key: number[0] for key, number in empty.items()}
    np.testing.assert_equal(values(one.compute()), wanted)
    for batch, answer in zip(RECORDED["batches"], after, strict=True):
        feed(one, batch, weighted)
        found = values(one.compute())
        assert found.keys() == answer.keys()
        for key, (number,) in answer.items():
            assert math.isclose(found[key], number, rel_tol=2e-6, abs_tol=1e-7), key
    assert one.local_compute().keys() == set(local)
    one.reset()
    np.testing.assert_equal(values(one.compute()), wanted)


def test_equal_predictions_count_half():
    one = metrics.AUCMetric(1, 0, 4, TASKS[:1], window_size=4)
    one.update(predictions=rl.tensor([0.5, 0.5, 0.2, 0.9]), labels=rl.tensor([1.0, 0, 0, 1]))
    assert values(one.compute()) == {"auc-t0|window_auc": 0.875}


def test_what_does_not_fit_is_refused():
    for call in (
        lambda: metrics.CTRMetric(2, 0, 8, TASKS, window_size=8),
        lambda: metric("CTRMetric").update(predictions=rl.ones(2), labels=rl.ones(2)),
        lambda: metric("CTRMetric").update(predictions={"t0": rl.ones(2)}, labels={"t0": rl.ones(2)}),
    ):
        with pytest.raises(RushlightError) as caught:
            call()
        assert caught.value.code == "A002"


@pytest.mark.parametrize("name", ["NEMetric", "AUCMetric", "MSEMetric"])
def test_values_of_two_ranks_are_those_of_all_examples(name: str):
    def job() -> dict[str, float]:
        one = metric(name, 2)
        for batch in RECORDED["batches"][dist.get_rank() :: 2]:
            feed(one, batch, True)
        return values(one.compute())

    whole = getattr(metrics, name)(1, 0, 8, TASKS, window_size=32)
    for batch in RECORDED["batches"]:
        feed(whole, batch, True)
    wanted = values(whole.compute())
    for found in dist.spawn(job, 2):
        assert found == pytest.approx(wanted, rel=1e-12)
