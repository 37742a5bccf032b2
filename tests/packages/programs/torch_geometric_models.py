"""Graph networks of torch-geometric."""

import torch
import torch.nn.functional as F
from case import Case, draw_weights, drawn, drawn_ints
from torch_geometric.data import Data
from torch_geometric.nn import GATConv, GCNConv


class Network(torch.nn.Module):
    """Two layers over the edges of a graph."""

    def __init__(self, first: torch.nn.Module, second: torch.nn.Module) -> None:
        super().__init__()
        self.first, self.second = first, second

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        """Return a row of logits for each node."""
        return self.second(F.elu(self.first(x, edge_index)), edge_index)


def _nodes(model: torch.nn.Module) -> Case:
    draw_weights(model)
    data = Data(x=drawn(12, 6), edge_index=drawn_ints(12, 2, 30), y=drawn_ints(3, 12, seed=5))
    return Case(
        model,
        lambda: {"logits": model(data.x, data.edge_index)},
        lambda: F.cross_entropy(model(data.x, data.edge_index), data.y),
        compiled=lambda compile: compile(model)(data.x, data.edge_index),
    )


def gcn() -> Case:
    """Graph convolutions."""
    return _nodes(Network(GCNConv(6, 16), GCNConv(16, 3)))


def gat() -> Case:
    """Attention over neighbours."""
    return _nodes(Network(GATConv(6, 8, heads=4), GATConv(32, 3, heads=1)))
