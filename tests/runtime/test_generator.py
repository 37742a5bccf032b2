"""A generator is a seed and a count of calls."""

import threading

import pytest

import rushlight as rl
from rushlight.runtime.generator import DEFAULT_SEED, Generator, default_generator
from rushlight.support.errors import ArgumentValueError


def test_ordinals_count_calls():
    generator = Generator(5)
    assert [generator.next_ordinal() for _ in range(3)] == [(5, 0), (5, 1), (5, 2)]
    assert generator.next_ordinal(10) == (5, 3)
    assert generator.next_ordinal() == (5, 13)


def test_state_brings_back_the_stream():
    generator = Generator(1)
    generator.next_ordinal()
    position, state = generator.position(), generator.get_state()
    later = [generator.next_ordinal() for _ in range(3)]
    assert [Generator(9).go_to(position).next_ordinal()] == later[:1]
    assert [Generator(9).set_state(state).next_ordinal()] == later[:1]
    assert generator.set_state(state).next_ordinal() == later[0]
    for other in (state[1:], state.to(rl.int64)):
        with pytest.raises(ArgumentValueError):
            generator.set_state(other)
    with pytest.raises(TypeError):
        generator.set_state((1, -1))


def test_states_of_all_generators_are_tensors_of_bytes():
    generator = Generator((1 << 64) - 3)
    generator.set_state(rl.get_rng_state())
    assert generator.position() == default_generator.position()
    assert generator.get_state().dtype is rl.uint8 and rl.equal(generator.get_state(), rl.get_rng_state())
    generator.manual_seed(-3).next_ordinal(7)
    assert Generator().set_state(generator.get_state()).position() == ((1 << 64) - 3, 7)


def test_manual_seed_starts_again():
    generator = Generator(1)
    generator.next_ordinal()
    assert generator.manual_seed(-1).next_ordinal() == ((1 << 64) - 1, 0)
    assert generator.initial_seed() == (1 << 64) - 1
    assert generator.seed() == generator.initial_seed()
    assert Generator().initial_seed() == DEFAULT_SEED


def test_threads_never_share_an_ordinal():
    generator, seen = Generator(), []

    def work():
        seen.extend([generator.next_ordinal()[1] for _ in range(500)])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == list(range(2000))
