"""Constants are fitted to measured lookups."""

import random

import pytest

import rushlight as rl
from rushlight.recsys.distributed.measuring import configurations, measured_steps
from rushlight.recsys.measuring import lookups, measure
from rushlight.recsys.planner import Constants, Measurement, Plan, Topology, calibrate, rank_correlation
from rushlight.recsys.planner.calibration import forward_ms

BANDWIDTH = 5e7


def invented(constants: Constants, noise: float, count: int = 60) -> list[Measurement]:
    draw = random.Random(1)
    found = []
    for _ in range(count):
        lookup = Measurement(
            10_000, draw.choice([16, 64, 128, 256]), draw.randrange(32, 4096), draw.randrange(1, 50), 1.0
        )
        time = forward_ms(lookup, constants, BANDWIDTH) * (1 + draw.uniform(-noise, noise))
        found.append(Measurement(lookup.rows, lookup.columns, lookup.samples, lookup.pooling, time, 1.7 * time))
    return found


def test_constants_that_made_the_times_are_found_again():
    true = Constants(2.0, 3.0, 1.5, 0.02, half_block_penalty=1.2, quarter_block_penalty=1.6)
    fitted = calibrate(invented(true, 0.0), BANDWIDTH)
    assert fitted.rank_correlation > 0.999 and fitted.median_error < 0.01
    assert fitted.constants.bwd_compute_multiplier == pytest.approx(1.7)
    assert fitted.constants.lookup_factor == pytest.approx(3.0, rel=0.05)
    assert fitted.constants.overhead_ms == pytest.approx(0.02, rel=0.05)
    assert fitted.constants.quarter_block_penalty == pytest.approx(1.6, rel=0.05)


def test_noise_gives_no_negative_constants():
    fitted = calibrate(invented(Constants(0.0, 5.0, 0.0, 0.0), 0.3), BANDWIDTH)
    constants = fitted.constants
    assert min(constants.input_factor, constants.lookup_factor, constants.output_factor, constants.overhead_ms) >= 0
    assert fitted.rank_correlation > 0.9


def test_correlation_of_ranks_is_spearmans():
    assert rank_correlation([1, 2, 3], [10, 20, 30]) == pytest.approx(1)
    assert rank_correlation([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert rank_correlation([1, 2, 2, 4], [1, 3, 2, 4]) == pytest.approx(0.9486832980505138)
    assert rank_correlation([1, 1], [1, 2]) == 0


@pytest.mark.parametrize("given", [[], [Measurement(10, 4, 1, 1.0, -1.0)] * 8, [Measurement(0, 4, 1, 1.0, 1.0)] * 8])
def test_measurements_that_are_none_are_refused(given: list[Measurement]):
    with pytest.raises(rl.RushlightError) as caught:
        calibrate(given, BANDWIDTH)
    assert caught.value.code == "E020" and caught.value.hint


@pytest.mark.slow
def test_measured_lookups_are_estimated_in_their_order():
    """Rank correlation of measured and estimated times of lookups, which other work beside disturbs."""

    def correlation() -> float:
        return calibrate([measure(*lookup) for lookup in lookups(20)], BANDWIDTH).rank_correlation

    assert any(correlation() >= 0.8 for _ in range(3))


@pytest.mark.row("10.10")
@pytest.mark.slow
def test_steps_of_divided_tables_are_estimated_in_their_order():
    """`rushlight emb calibrate --steps 50` says it of 50; other work beside disturbs it."""
    plans = configurations(12, Topology(2, "cpu"))
    estimated = [plan.bottleneck_ms for plan in plans]
    assert any(rank_correlation(estimated, measured_steps(plans, 2)) >= 0.6 for _ in range(3))


def test_constants_of_a_machine_are_part_of_a_plans_text():
    from rushlight.recsys.configs import EmbeddingBagConfig
    from rushlight.recsys.planner import EmbeddingShardingPlanner

    constants = Constants(overhead_ms=0.5, lookup_factor=7.0)
    topology = Topology(2, constants=constants)
    plan = EmbeddingShardingPlanner(topology).plan([EmbeddingBagConfig(100, 8, "t")])
    assert "overhead_ms = 0.5" in plan.text() and Plan.parse(plan.text()).topology.constants == constants
    assert plan["t"].perfs[0].fwd_compute > 0.5
