"""A softmax over many classes, of which few are frequent."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from rushlight.eager.functions import cat, log_softmax
from rushlight.eager.tensor import Tensor
from rushlight.nn.modules.container import ModuleList, Sequential
from rushlight.nn.modules.linear import Linear
from rushlight.nn.modules.module import Module
from rushlight.support.errors import require

__all__ = ["AdaptiveLogSoftmaxWithLoss"]


class ASMoutput(NamedTuple):
    """The log-probabilities of the targets, and the mean of their opposites."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """A softmax in two steps (Grave et al. 2017): among frequent classes and clusters, then within a cluster.

    Classes are numbered by falling frequency; `cutoffs` are the first classes of the clusters. Each cluster's features
    are fewer than those of the one before by `div_value`.
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: object = None,
        dtype: object = None,
    ) -> None:
        super().__init__()
        require(len(cutoffs) > 0, "A002", "cutoffs should be a sequence of length larger than 0")
        bounds = [0, *cutoffs, n_classes]
        rising = all(int(after) == after and before < after for before, after in pairwise(bounds))
        order = "cutoffs should be unique, positive integers in increasing order, below n_classes"
        require(rising, "A002", order, cutoffs=tuple(cutoffs))
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, head_bias, device, dtype)
        self.tail = ModuleList()
        for at, (first, end) in enumerate(self._clusters()):
            width = int(in_features // div_value ** (at + 1))
            narrow = Linear(in_features, width, False, device, dtype)
            self.tail.append(Sequential(narrow, Linear(width, end - first, False, device, dtype)))

    def _clusters(self) -> list[tuple[int, int]]:
        return list(pairwise(self.cutoffs))

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        self.head.reset_parameters()
        for cluster in self.tail:
            for layer in cluster:
                layer.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> ASMoutput:
        """Return the log-probabilities of targets and the loss. `n` may be missing in both shapes."""
        require(target_.ndim <= 1, "A004", "0D or 1D target tensor expected, multi-target not supported")
        ranks = f"{target_.ndim}D target tensor expects {target_.ndim + 1}D input tensors"
        require(input_.ndim == target_.ndim + 1, "A004", ranks, input=input_)
        single = target_.ndim == 0
        input, target = (input_.unsqueeze(0), target_.unsqueeze(0)) if single else (input_, target_)
        message = "Input and target should have the same size in the batch dimension."
        require(input.shape[0] == target.shape[0], "A004", message, input=input, target=target)
        in_range = not bool(((target < 0) | (target >= self.n_classes)).any())
        require(in_range, "A004", f"Target values should be in [0, {self.n_classes - 1}]", target=target)
        output = self._log_probabilities(input, target)
        loss = (-output).mean()
        return ASMoutput(output.squeeze(0) if single else output, loss)

    def _log_probabilities(self, input: Tensor, target: Tensor) -> Tensor:
        """Those of the targets, in clusters of the rows that have targets there alone."""
        heads = target.clone()
        parts: list[tuple[Tensor, Tensor]] = []
        for at, (first, end) in enumerate(self._clusters()):
            rows = ((target >= first) & (target < end)).nonzero().squeeze(1)
            if rows.numel():
                heads.index_fill_(0, rows, self.shortlist_size + at)
                within = log_softmax(self.tail[at](input.index_select(0, rows)), 1)
                own = target.index_select(0, rows) - first
                parts.append((rows, within.gather(1, own.unsqueeze(1)).squeeze(1)))
        output = log_softmax(self.head(input), 1).gather(1, heads.unsqueeze(1)).squeeze(1)
        for rows, log_probs in parts:
            output = output.index_add(0, rows, log_probs)
        return output

    def log_prob(self, input: Tensor) -> Tensor:
        """Return the log-probabilities of all classes: (n, n_classes)."""
        head = log_softmax(self.head(input), 1)
        parts = [head[:, : self.shortlist_size]]
        for at, cluster in enumerate(self.tail):
            whole = head[:, self.shortlist_size + at].unsqueeze(1)
            parts.append(log_softmax(cluster(input), 1) + whole)
        return cat(parts, 1)

    def predict(self, input: Tensor) -> Tensor:
        """Return the most probable class of each row."""
        return self.log_prob(input).argmax(1)
