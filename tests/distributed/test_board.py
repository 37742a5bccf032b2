"""The board on which the processes of one machine post their calls."""

import numpy as np

from rushlight.distributed.engine.board import PLACES, Board, board_bytes
from rushlight.distributed.engine.call import Call, Verb


class Overtaken(np.ndarray):
    """Hashes that are read just after their rank has gone on to a later call of another group, in the same place."""

    after: list

    def __getitem__(self, at):
        while self.after:
            self.after.pop()()
        return super().__getitem__(at)


def posted(board: Board, group: int, sequence: int, count: int) -> int:
    call = Call(Verb.ALL_REDUCE, np.zeros(count), None, sequence=sequence)
    return board.post(group, call, 0)


def boards() -> tuple[Board, Board]:
    memory = bytearray(board_bytes(2))
    return Board(memory, 2, 0), Board(memory, 2, 1)


def test_ranks_that_do_the_same_agree():
    first, second = boards()
    posted(first, 0, 5, 4)
    assert not second.others(0, 5, posted(second, 0, 5, 4), [0])


def test_a_rank_that_does_something_else_is_found():
    first, second = boards()
    posted(first, 0, 5, 3)
    assert second.others(0, 5, posted(second, 0, 5, 4), [0]) == [0]


def test_a_rank_that_goes_on_while_another_reads_has_not_disagreed():
    """A place is taken again by another group's call, or 64 calls later."""
    first, second = boards()
    posted(first, 0, 5, 4)
    mine = posted(second, 0, 5, 4)
    second._hashes = second._hashes.view(Overtaken)
    second._hashes.after = [lambda: posted(first, PLACES, 5, 3)]
    assert not second.others(0, 5, mine, [0])
