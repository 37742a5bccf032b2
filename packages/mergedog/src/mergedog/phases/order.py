"""The phases, in the order in which one look at a pull request goes through them.

Each one is idempotent: it looks at the forge and at the state, does at most one thing, and says how to go on.
"""

from collections.abc import Callable

from mergedog.phases.base import refresh_base
from mergedog.phases.checks import approve_waiting_runs, await_checks
from mergedog.phases.entry import check_open, judge_text, park, settle_approval, verify_head
from mergedog.phases.handover import hand_over, request_full_run
from mergedog.phases.repair import repair
from mergedog.session import Outcome, Session

PHASES: tuple[tuple[str, Callable[[Session], Outcome]], ...] = (
    ("open", check_open),
    ("incident", park),
    ("approval", settle_approval),
    ("text", judge_text),
    ("trust", verify_head),
    ("waiting runs", approve_waiting_runs),
    ("checks", await_checks),
    ("repair", repair),
    ("base", refresh_base),
    ("full run", request_full_run),
    ("hand over", hand_over),
)
