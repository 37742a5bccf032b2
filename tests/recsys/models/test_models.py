"""Models and their parts give the numbers that TorchRec's give, with its names of states."""

import numpy as np
import pytest

import rushlight as rl
from recorded_models import CASES, DENSE, filled, ids, numbers, tables
from rushlight.recsys.datasets import Batch
from rushlight.recsys.models import DLRM, DLRM_DCN, DLRM_Projection, DLRMTrain, SimpleDeepFMNN
from rushlight.recsys.modules import (
    MLP,
    CrossNet,
    DeepFM,
    FactorizationMachine,
    LowRankCrossNet,
    LowRankMixtureCrossNet,
    VectorCrossNet,
)
from rushlight.support.errors import RushlightError

MAKERS = {
    "DLRM": lambda: DLRM(tables(), *DENSE, [5, 1]),
    "DLRM_DCN": lambda: DLRM_DCN(tables(), *DENSE, [5, 1], dcn_num_layers=2, dcn_low_rank_dim=3),
    "DLRM_Projection": lambda: DLRM_Projection(tables(), *DENSE, [5, 1], [8, 12], [6, 8]),
    "SimpleDeepFMNN": lambda: SimpleDeepFMNN(6, tables(), 7, 5),
    "CrossNet": lambda: CrossNet(6, 2),
    "LowRankCrossNet": lambda: LowRankCrossNet(6, 2, 3),
    "VectorCrossNet": lambda: VectorCrossNet(6, 2),
    "LowRankMixtureCrossNet": lambda: LowRankMixtureCrossNet(6, 2, 3, 2),
    "LowRankMixtureCrossNet-1": lambda: LowRankMixtureCrossNet(6, 2, 1, 2),
    "MLP": lambda: MLP(6, [5, 3]),
    "MLP-swish": lambda: MLP(6, [5, 3], activation="swish_layernorm"),
    "MLP-sigmoid": lambda: MLP(6, [5, 3], bias=False, activation="sigmoid", activation_on_last=False),
    "DeepFM": lambda: DeepFM(MLP(6, [3])),
    "FactorizationMachine": FactorizationMachine,
}


def inputs(name: str) -> tuple[object, ...]:
    if name in ("DeepFM", "FactorizationMachine"):
        return ([numbers(3, 3, 2, 2), numbers(4, 3, 2)],)
    return (numbers(3, 3, 6), ids()) if name in list(MAKERS)[:4] else (numbers(3, 3, 6),)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", MAKERS)
def test_outputs_gradients_and_states_are_those_of_torchrec(name: str, compiled: bool):
    module, recorded = filled(MAKERS[name]()), CASES[name]
    assert {key: list(one.shape) for key, one in module.state_dict().items()} == recorded["state"]
    function = rl.compile(module, fullgraph=True) if compiled else module
    output = function(*inputs(name))
    np.testing.assert_allclose(output.detach().numpy().ravel(), recorded["output"], rtol=2e-5, atol=1e-6)
    if output.requires_grad:
        (output * numbers(7, *output.shape)).sum().backward()
    for key, parameter in module.named_parameters():
        gradient = [] if parameter.grad is None else parameter.grad.numpy().ravel()[:12]
        np.testing.assert_allclose(gradient, recorded["gradients"][key], rtol=1e-4, atol=2e-6, err_msg=key)


def test_the_loss_of_a_batch_is_that_of_torchrec():
    train = filled(DLRMTrain(MAKERS["DLRM"]()))
    loss, (same, logits, labels) = train(Batch(numbers(3, 3, 6), ids(), rl.tensor([0, 1, 1])))
    assert loss.item() == pytest.approx(CASES["DLRMTrain"]["loss"], rel=1e-6) == same.item()
    np.testing.assert_allclose(logits.numpy(), CASES["DLRMTrain"]["logits"], rtol=1e-5)
    assert labels.tolist() == [0, 1, 1] and not (same.requires_grad or logits.requires_grad)


@pytest.mark.parametrize(
    "make",
    [
        lambda: MLP(6, [5], activation="tanh"),
        lambda: LowRankCrossNet(6, 2, 0),
        lambda: LowRankMixtureCrossNet(6, 2, 0),
        lambda: DLRM(tables(), 6, [7, 5], [5, 1]),
        lambda: DLRM(tables(), 6, [7, 4], [1]),
        lambda: DLRM_Projection(tables(), *DENSE, [5, 1], [8, 11], [6, 8]),
    ],
)
def test_sizes_that_do_not_fit_are_refused(make):
    with pytest.raises(RushlightError) as refused:
        make()
    assert refused.value.code == "A002"


def test_a_function_that_makes_activations_makes_one_for_each_layer():
    made = MLP(6, [5, 3], activation=lambda: rl.nn.PReLU())
    assert len({id(one) for one in made.modules() if isinstance(one, rl.nn.PReLU)}) == 2
    shared = rl.nn.PReLU()
    assert [one for one in MLP(6, [5, 3], activation=shared).modules() if isinstance(one, rl.nn.PReLU)] == [shared]
