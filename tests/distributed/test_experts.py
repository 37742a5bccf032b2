"""Experts on ranks: tokens are dispatched to the ranks of their experts and combined again, as values tell."""

import numpy as np
import pytest

import rushlight as rl
from rushlight import distributed as dist
from rushlight.distributed import _functional_collectives as funcol

RANKS, WIDTH = 4, 5


def routed(x, route, weight):
    """Tokens through the expert of the rank that `route` names: sorted, sent, computed, sent back, put back."""
    order = route.argsort(stable=True)
    counts = (route[:, None] == rl.arange(RANKS)).sum(0)
    taken = funcol.all_to_all_single(counts, None, None)
    sent, received = counts.tolist(), taken.tolist()
    tokens = funcol.all_to_all_single_autograd(x[order], received, sent, None)
    back = funcol.all_to_all_single_autograd((tokens @ weight).tanh(), sent, received, None)
    return rl.zeros_like(back).index_copy(0, order, back)


@pytest.mark.row("8.9")
def test_dispatch_and_combine_of_20_routings_are_one_graph():
    rng = np.random.default_rng(0)
    weights = [rl.tensor(rng.normal(size=(WIDTH, WIDTH)).tolist()) for _ in range(RANKS)]
    batches = []
    for number in range(20):
        tokens = int(rng.integers(2, 12))
        experts = RANKS if number % 3 else 2  # the others get nothing
        batches.append(
            [(rl.tensor(rng.normal(size=(tokens, WIDTH)).tolist()), rng.integers(0, experts, tokens)) for _ in weights]
        )

    def wanted(batch):
        """By a loop over experts, on all tokens: results, their gradients, and those of the weights."""
        leaves = [x.clone().requires_grad_() for x, _ in batch]
        own = [weight.clone().requires_grad_() for weight in weights]
        outs = [rl.zeros(len(route), WIDTH) for _, route in batch]
        for expert, weight in enumerate(own):
            for at, (_, route) in enumerate(batch):
                mine = rl.tensor((route == expert).tolist())
                outs[at] = rl.where(mine[:, None], (leaves[at] @ weight).tanh(), outs[at])
        sum([(out * (at + 1)).sum() for at, out in enumerate(outs)]).backward()
        return [
            [out.detach().numpy(), leaf.grad.numpy(), weight.grad.numpy()]
            for out, leaf, weight in zip(outs, leaves, own, strict=True)
        ]

    def run():
        rank, found = dist.get_rank(), []
        compiled = rl.compile(routed, fullgraph=True)
        for batch in batches:
            x, route = batch[rank]
            leaf, weight = x.clone().requires_grad_(), weights[rank].clone().requires_grad_()
            out = compiled(leaf, rl.tensor(route.tolist()), weight)
            (out * (rank + 1)).sum().backward()
            found.append([out.detach().numpy(), leaf.grad.numpy(), weight.grad.numpy()])
        return found

    before = rl.compiler.graph_count()
    found = dist.spawn(run, RANKS)
    assert rl.compiler.graph_count() - before == RANKS  # one for each rank
    for number, batch in enumerate(batches):
        for own, other in zip(wanted(batch), [ranks[number] for ranks in found], strict=True):
            for one, two in zip(own, other, strict=True):
                np.testing.assert_allclose(two, one, rtol=1e-5, atol=1e-6)
