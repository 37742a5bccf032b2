"""state_dict and load_state_dict: keys, strictness, hooks, and that nothing is half loaded."""

import copy
from collections import OrderedDict

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn


def model():
    return nn.Sequential(
        OrderedDict([("body", nn.Linear(3, 2)), ("norm", nn.BatchNorm1d(2)), ("head", nn.Linear(2, 2))])
    )


KEYS = [
    "body.weight",
    "body.bias",
    "norm.weight",
    "norm.bias",
    "norm.running_mean",
    "norm.running_var",
    "norm.num_batches_tracked",
    "head.weight",
    "head.bias",
]


def test_state_dict_names_everything_persistent_and_detached():
    net = model()
    net.register_buffer("scratch", rl.zeros(1), persistent=False)
    state = net.state_dict()
    assert list(state) == KEYS
    assert not any(tensor.requires_grad for tensor in state.values())
    assert state["body.weight"].data_ptr() == net.body.weight.data_ptr()
    assert net.state_dict(keep_vars=True)["body.weight"] is net.body.weight
    assert next(iter(net.state_dict(prefix="net."))) == "net.body.weight"
    assert state._metadata["norm"] == {"version": 2}


def test_load_copies_into_the_same_parameters():
    source, target = model(), model()
    with rl.no_grad():
        source.norm.running_mean.fill_(3)
    before = list(target.parameters())
    assert repr(target.load_state_dict(source.state_dict())) == "<All keys matched successfully>"
    assert all(a is b for a, b in zip(before, target.parameters(), strict=True))
    for key, tensor in source.state_dict().items():
        np.testing.assert_array_equal(target.state_dict()[key].numpy(), tensor.numpy())
    assert target.body.weight.data_ptr() != source.body.weight.data_ptr()


def test_assign_takes_the_tensors_themselves():
    target = model()
    state = {key: tensor.clone() for key, tensor in model().double().state_dict().items()}
    target.load_state_dict(state, assign=True)
    assert target.body.weight.data_ptr() == state["body.weight"].data_ptr()
    assert isinstance(target.body.weight, nn.Parameter) and target.body.weight.dtype is rl.float64


def test_what_does_not_fit_is_one_error_and_nothing_is_loaded():
    target = model()
    state = OrderedDict((key, tensor.clone() + 1) for key, tensor in model().state_dict().items())
    before = {key: tensor.numpy().copy() for key, tensor in target.state_dict().items()}
    del state["head.bias"]
    state["tail.weight"] = rl.zeros(1)
    state["body.weight"] = rl.zeros(2, 4)
    state["norm.bias"] = [0.0, 0.0]
    with pytest.raises(RuntimeError, match=r"Error\(s\) in loading state_dict for Sequential") as caught:
        target.load_state_dict(state)
    text = str(caught.value)
    assert 'Missing key(s) in state_dict: "head.bias"' in text
    assert 'Unexpected key(s) in state_dict: "tail.weight"' in text
    assert "size mismatch for body.weight" in text and "Size([2, 4])" in text
    assert 'parameter named "norm.bias", expected a Tensor but received list' in text
    for key, tensor in target.state_dict().items():
        np.testing.assert_array_equal(tensor.numpy(), before[key])


def test_not_strict_loads_what_fits_and_says_what_did_not():
    target = model()
    found = target.load_state_dict({"head.bias": rl.tensor([5.0, 6.0]), "tail": rl.zeros(1)}, strict=False)
    assert found.unexpected_keys == ["tail"]
    given = ("head.bias", "norm.num_batches_tracked")  # a state without a version has no counts, as those of old files
    assert found.missing_keys == [key for key in KEYS if key not in given]
    assert target.head.bias.tolist() == [5.0, 6.0]
    with pytest.raises(RuntimeError, match="size mismatch"):
        target.load_state_dict({"head.bias": rl.zeros(3)}, strict=False)
    with pytest.raises(TypeError, match="takes a dict"):
        target.load_state_dict([("head.bias", rl.zeros(2))])


def test_tied_parameters_stay_tied():
    net = model()
    net.extra = net.head
    net.load_state_dict({key: tensor.clone() for key, tensor in net.state_dict().items()}, assign=True)
    assert net.extra is net.head


def test_extra_state_travels():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.seen = 0

        def get_extra_state(self):
            return {"seen": self.seen}

        def set_extra_state(self, state):
            self.seen = state["seen"]

    source, target = Counting(), Counting()
    source.seen = 4
    target.load_state_dict(source.state_dict())
    assert target.seen == 4
    with pytest.raises(RuntimeError, match="_extra_state"):
        target.load_state_dict({})


def test_state_dict_hooks_run_in_their_places():
    net = nn.Linear(1, 1)
    net.register_state_dict_post_hook(lambda module, state, prefix, metadata: state.__delitem__(prefix + "bias"))
    state = net.state_dict()
    assert list(state) == ["weight"]
    net.register_load_state_dict_pre_hook(
        lambda module, given, prefix, *rest: given.setdefault(prefix + "bias", rl.ones(1))
    )
    found = []
    net.register_load_state_dict_post_hook(lambda module, keys: found.append(keys))
    net.load_state_dict(state)
    assert net.bias.item() == 1 and found[0].missing_keys == []
    assert list(state) == ["weight"], "the caller's dict was changed"


def test_older_versions_can_be_read():
    class Renamed(nn.Linear):
        _version = 2

        def _load_from_state_dict(self, state_dict, prefix, local_metadata, *rest):
            if local_metadata.get("version", 1) < 2:
                state_dict[prefix + "weight"] = state_dict.pop(prefix + "w")
            super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    net = Renamed(1, 1, bias=False)
    net.load_state_dict({"w": rl.tensor([[3.0]])})
    assert net.weight.item() == 3


def test_a_hook_before_the_state_dict_sees_the_module_and_the_prefix():
    block = nn.Sequential(nn.Linear(2, 1))
    seen = []
    handle = block[0].register_state_dict_pre_hook(
        lambda module, prefix, keep_vars: seen.append((module, prefix, keep_vars))
    )
    block.state_dict(prefix="a.")
    handle.remove()
    block.state_dict()
    assert seen == [(block[0], "a.0.", False)]


def test_hooks_under_their_private_names_are_those_of_pytorch():
    block, seen = nn.Sequential(nn.Linear(2, 1), nn.Linear(1, 1)), []
    block[0]._register_load_state_dict_pre_hook(lambda given, prefix, *rest: seen.append((prefix, sorted(given))))
    block[0]._register_load_state_dict_pre_hook(lambda module, *rest: seen.append(module), with_module=True)
    block.load_state_dict(block.state_dict())
    assert seen == [("0.", ["0.bias", "0.weight"]), block[0]]
    block[1]._register_state_dict_hook(lambda module, state, prefix, metadata: {})
    assert len(block.state_dict()) == 4
    block._register_state_dict_hook(lambda module, state, prefix, metadata: {"only": 1})
    assert block.state_dict() == {"only": 1}
    returned = nn.Linear(1, 1)
    returned.register_state_dict_post_hook(lambda module, state, prefix, metadata: state)
    with pytest.raises(RuntimeError, match="in place"):
        returned.state_dict()


def test_hooks_of_copies_are_those_of_the_copies():
    class Counts(nn.Linear):
        def __init__(self):
            super().__init__(1, 1)
            self.loads = 0
            self._register_load_state_dict_pre_hook(self.count)

        def count(self, *args):
            self.loads += 1

    first = Counts()
    second = copy.deepcopy(first)
    second.load_state_dict(first.state_dict())
    assert (first.loads, second.loads) == (0, 1)


def test_hooks_after_loading_may_take_keys_from_the_lists_and_add_some():
    block, seen = nn.Sequential(nn.Linear(1, 1)), []

    def forgive(module, keys):
        seen.append((module, list(keys.missing_keys), module[0].bias.item()))
        keys.missing_keys.clear()

    handle = block.register_load_state_dict_post_hook(forgive)
    result = block.load_state_dict({"0.bias": rl.full((1,), 7.0)})
    assert seen == [(block, ["0.weight"], 7.0)] and result.missing_keys == []
    handle.remove()
    with pytest.raises(RuntimeError, match="Missing"):
        block.load_state_dict({"0.bias": rl.zeros(1)})
    assert block[0].bias.item() == 7.0, "nothing is copied where keys are missing and nobody may forgive it"
    block.register_load_state_dict_post_hook(lambda module, keys: keys.unexpected_keys.append("more"))
    with pytest.raises(RuntimeError, match="more"):
        block.load_state_dict(block.state_dict())
