"""Row 12.1: each scenario gives the expected log of visible actions, and ends where people have to do something."""

import pytest

from scenarios import SCENARIOS


@pytest.mark.row("12.1")
@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(name):
    scenario = SCENARIOS[name]
    stage = scenario.stage()
    ending = stage.told(stage.play())
    assert (tuple(stage.hub.acts), ending) == (scenario.acts, scenario.ending), stage.state().log
    assert len(stage.agent.prompts) == scenario.sessions


@pytest.mark.row("12.1")
def test_there_are_forty_scenarios():
    assert len(SCENARIOS) >= 40
