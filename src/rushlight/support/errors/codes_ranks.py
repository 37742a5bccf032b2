"""Codes of what fails between ranks."""

from rushlight.support.errors.classes import DistError
from rushlight.support.errors.registry import register_code

register_code(
    "W001",
    DistError,
    "There is no such process group",
    "A collective needs a group of ranks: the default one, or one of new_group that was not destroyed.",
    "call distributed.init_process_group() first",
)
register_code(
    "W002",
    DistError,
    "Ranks disagree in what they do together",
    "All ranks of a group make the same calls in the same order, with equal dtypes, counts, reductions and roots. "
    "The error lists the call of each rank that has come, with its line.",
)
register_code(
    "W003",
    DistError,
    "All ranks wait for each other",
    "No rank can go on: each waits for a call of another one. The error lists what each waits for, with its line.",
    "let all ranks make the same collectives in the same order, and let one of two ranks send first",
)
register_code(
    "W004",
    DistError,
    "A rank has ended while others wait for it",
    "The program of a rank has returned, or called sys.exit, and others have begun a collective that it belongs to.",
    "let all ranks run the same number of steps",
)
register_code(
    "W005",
    DistError,
    "Another rank has failed",
    "A failure of one rank ends all of them. The error of the rank that failed first is the one to read.",
)
register_code(
    "W006",
    DistError,
    "The gradients of a step are not complete",
    "Data parallelism waits for one gradient of each parameter in a step. One never came, or came twice.",
    "pass find_unused_parameters=True, or let every parameter take part in the loss",
)
register_code(
    "W007",
    DistError,
    "A rank has not come in time",
    "A collective has waited as long as its timeout allows. The error lists what each rank of the machine did last.",
    "look at what the rank does, or raise the timeout of init_process_group",
)
register_code(
    "W008",
    DistError,
    "A job of several ranks has failed",
    "The launcher could not start the ranks, or one of them has ended with an error or by a signal.",
)
register_code(
    "W040",
    DistError,
    "A pipeline's schedule never ends",
    "Each rank takes its actions in order, and each action needs those of other ranks before it. Here no rank can go "
    "on, or an action is missing or there twice.",
)
