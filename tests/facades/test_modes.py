"""Modes of the program: the device and dtype of new tensors, random state, determinism."""

import pytest

import rushlight as rl
from rushlight.utils.data import DistributedSampler


def test_new_tensors_are_made_on_the_device_of_the_scope():
    made = rl.compile(lambda: rl.ones(2) * 2)
    assert made().device.type == "cpu"
    with rl.device("meta") as device:
        assert rl.get_default_device() == device
        values = [rl.ones(2), rl.tensor([1.0]), rl.arange(3), rl.randperm(4), rl.randn(2), rl.eye(2), made()]
        values += [rl.linspace(0, 1, 3), rl.full((2,), 1), rl.as_tensor([1.0]), rl.nn.Linear(2, 3).weight]
        assert all(value.is_meta for value in values)
        with rl.device("cpu"):
            assert not rl.zeros(1).is_meta
            assert rl.zeros(3).random_(4).bernoulli_().sum().item() >= 0
        assert rl.zeros(1).is_meta and not rl.zeros(1, device="cpu").is_meta
    assert made().tolist() == [2, 2] and rl.get_default_device().type == "cpu"


def test_a_default_device_is_set_until_it_is_set_again():
    rl.set_default_device("meta")
    try:
        assert rl.zeros(1).is_meta
    finally:
        rl.set_default_device(None)
    assert not rl.zeros(1).is_meta
    with pytest.raises(rl.DeviceError):
        rl.set_default_device("cuda")
    with pytest.raises(rl.DeviceError), rl.device("cuda"):
        pass
    assert rl.zeros(1).device.type == "cpu"


def test_compiled_functions_follow_the_dtype_of_python_floats():
    made = rl.compile(lambda: rl.ones(2) / 3)
    assert made().dtype is rl.float32
    rl.set_default_tensor_type("torch.DoubleTensor")
    try:
        assert made().dtype is rl.float64
    finally:
        rl.set_default_tensor_type(rl.FloatTensor)
    assert made().dtype is rl.float32
    with pytest.raises(rl.ArgumentError):
        rl.set_default_tensor_type(None)


def test_random_state_in_its_module():
    rl.random.manual_seed(5)
    with rl.random.fork_rng():
        first = rl.rand(3)
    with rl.random.fork_rng(devices=[], enabled=False, device_type="cuda"):
        assert rl.equal(first, rl.rand(3))
    assert not rl.equal(first, rl.rand(3)) and rl.random.initial_seed() == 5
    with pytest.raises(rl.RushlightError), rl.random.fork_rng(devices=[0]):
        pass


def test_determinism_is_answered_as_it_was_asked_for():
    rl.use_deterministic_algorithms(False)
    assert rl.get_deterministic_debug_mode() == 0 and not rl.are_deterministic_algorithms_enabled()
    rl.set_deterministic_debug_mode("warn")
    assert rl.is_deterministic_algorithms_warn_only_enabled() and rl.are_deterministic_algorithms_enabled()
    rl.use_deterministic_algorithms(True)
    assert rl.get_deterministic_debug_mode() == 2 and not rl.is_deterministic_algorithms_warn_only_enabled()
    rl.set_deterministic_debug_mode(0)
    assert not rl.are_deterministic_algorithms_enabled()
    with pytest.raises(rl.ArgumentError):
        rl.set_deterministic_debug_mode("always")


@pytest.mark.parametrize(
    ("count", "replicas", "drop", "expected"),
    [  # of torch 2.13
        (10, 3, False, [[0, 3, 6, 9], [1, 4, 7, 0], [2, 5, 8, 1]]),
        (10, 3, True, [[0, 3, 6], [1, 4, 7], [2, 5, 8]]),
        (2, 5, False, [[0], [1], [0], [1], [0]]),
        (2, 5, True, [[], [], [], [], []]),
    ],
)
def test_replicas_share_a_dataset(count, replicas, drop, expected):
    parts = [
        DistributedSampler(range(count), replicas, rank, shuffle=False, drop_last=drop) for rank in range(replicas)
    ]
    assert [list(part) for part in parts] == expected
    assert [len(part) for part in parts] == [len(part) for part in expected]


def test_replicas_draw_one_order_for_each_epoch():
    parts = [DistributedSampler(range(12), 3, rank, seed=4) for rank in range(3)]
    first = [list(part) for part in parts]
    assert (
        sorted(index for part in first for index in part) == list(range(12)) and [list(part) for part in parts] == first
    )
    for part in parts:
        part.set_epoch(1)
    assert [list(part) for part in parts] != first
    with pytest.raises(rl.ArgumentError):
        DistributedSampler(range(3), 2, 2)
    with pytest.raises(rl.DistError, match="process group"):
        DistributedSampler(range(3))
    shares = rl.distributed.spawn(lambda: list(DistributedSampler(range(5), shuffle=False)), 2)
    assert shares == [[0, 2, 4], [1, 3, 0]]
