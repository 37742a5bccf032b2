"""Scores of torchmetrics, over two batches."""

import torch
from case import Case, drawn, drawn_ints
from torchmetrics import AUROC, Accuracy


def _score(metric: torch.nn.Module, scores: torch.Tensor, labels: torch.Tensor) -> Case:
    def outputs() -> dict[str, object]:
        metric.reset()
        first = metric(scores[:20], labels[:20])
        metric.update(scores[20:], labels[20:])
        return {"first": first, "all": metric.compute()}

    return Case(None, outputs)


def accuracy() -> Case:
    """Of five classes."""
    return _score(Accuracy(task="multiclass", num_classes=5), drawn(50, 5), drawn_ints(5, 50))


def auroc() -> Case:
    """The area under a curve, of two classes."""
    return _score(AUROC(task="binary"), drawn(50).sigmoid(), drawn_ints(2, 50))
