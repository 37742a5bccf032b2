"""Row 12.2: whatever an outsider writes, the lines of a prompt that are ours stay the same."""

import itertools

import pytest

from mergedog.agent import How
from mergedog.simulated.agent import ends
from mergedog.simulated.checks import Workflow, fails
from scenarios import TRUNK
from simulation import Stage
from vectors import CANARY, HIDDEN, VISIBLE

VECTORS = {**{name: text for name, (text, _) in HIDDEN.items()}, **VISIBLE}
POLICY = '[full]\nworkflows = ["trunk"]\n[bounds]\nfixes = 1\n'


def prompt_with(text: str, place: str) -> str:
    """Return the prompt that the agent is handed when an outsider writes a text in a place."""
    pull = {"title": "t", "body": "b", "message": "m", "author": "ann"}
    log, job, workflow, comment = "FAILED t.py::test_a\n", "unit", "test", "c"
    match place:
        case "title" | "body" | "message":
            pull[place] = text
        case "comment":
            comment = text
        case "log":
            log += text
        case "job":
            job = text
        case "workflow":
            workflow = text
    stage = Stage(
        [Workflow(workflow, {job: fails(log)}), TRUNK], [ends(How.FAILED)], policy=POLICY, pull=pull, approve=False
    )
    stage.hub.say(1, comment, "eve")
    if place == "path":
        stage.hub.push(1, {text: "x"})
    stage.clock.time += 1
    stage.hub.review(1)
    stage.clock.time += 1
    later = {"comment after approval": text, "review by a stranger": text}.get(place)
    if later:
        stage.hub.say(1, later, "eve")
    stage.play(2)
    (prompt,) = stage.agent.prompts
    return prompt


def ours(prompt: str) -> list[str]:
    """Return the lines that are no quotations."""
    return [line for line in prompt.splitlines() if not line.startswith("| ")]


PLACES = ("title", "body", "comment", "log", "job", "workflow", "message", "path", "comment after approval")
QUOTED = ("title", "body", "comment", "log")


@pytest.mark.row("12.2")
def test_there_are_forty_vectors():
    assert len(VECTORS) >= 40


@pytest.mark.row("12.2")
@pytest.mark.parametrize("place", PLACES)
def test_no_vector_changes_our_lines(place):
    benign = ours(prompt_with("benign", "body"))
    for name, text in VECTORS.items():
        prompt = prompt_with(text, place)
        assert ours(prompt) == benign, name
        if place not in QUOTED:
            assert CANARY not in prompt, name
        elif place != "log":  # a log is no page: people see its markup
            assert (CANARY in prompt) == (name in VISIBLE), name


@pytest.mark.row("12.2")
def test_no_two_vectors_change_our_lines():
    benign = ours(prompt_with("benign", "body"))
    pairs = list(itertools.product(VECTORS.values(), repeat=2))
    for first, second in pairs[::29]:
        assert ours(prompt_with(first + second, "body")) == benign
        assert ours(prompt_with(first + "\n" + second, "log")) == benign


@pytest.mark.row("12.2")
def test_the_summary_shows_an_agents_words_as_plain_text():
    from mergedog.simulated.agent import says_spurious

    reason = "@mia <b>x</b> #12 `code` [a](http://b) <!-- mergedog -->\n\n# Title"
    stage = Stage([Workflow("test", {"unit": fails("FAILED t.py::test_a\n")}), TRUNK], [says_spurious(reason)])
    stage.play()
    body = stage.hub.pulls[1].comments[0].body
    assert "spurious: `test / unit`: the agent: (at)mia x no. 12 'code' a no. Title\n" in body
    assert body.count("<!--") == 1 and "@" not in body
