"""Boxes that overlap: of those that cover much the same, the one with the highest score is kept."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rushlight import Tensor, from_numpy
from rushlight.support.errors import require


def nms(dets: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """Return the boxes that are kept, int64[kept], by falling scores.

    `dets` float[N, 4] has the corners `x1, y1, x2, y2`, `scores` float[N]. A box is dropped where its intersection
    over union with one that is kept is more than `iou_threshold`. Of equal scores the first comes first.
    """
    n = len(dets) if dets.ndim else 0
    require(dets.shape == (n, 4), "A001", "nms: boxes are of shape [N, 4]", shape=tuple(dets.shape))
    require(scores.shape == (n,), "A001", "nms: there is a score for each box", shape=tuple(scores.shape), boxes=n)
    require(dets.dtype == scores.dtype, "A002", "nms: boxes and scores are of one dtype", boxes=dets.dtype)
    require(dets.is_floating_point(), "A002", "nms: boxes are floating-point numbers", dtype=dets.dtype)
    order = scores.argsort(descending=True, stable=True).numpy()
    boxes = dets.detach().numpy()[order]
    return from_numpy(order[_kept(boxes, (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]), iou_threshold)])


def _kept(boxes: NDArray[np.floating], areas: NDArray[np.floating], threshold: float) -> NDArray[np.bool_]:
    """Which boxes are kept, where they stand by falling scores."""
    low, high = boxes[:, :2], boxes[:, 2:]
    keep = np.ones(len(boxes), np.bool_)
    with np.errstate(all="ignore"):
        for at in range(len(boxes)):
            if keep[at]:
                behind = slice(at + 1, None)
                sides = np.minimum(high[at], high[behind]) - np.maximum(low[at], low[behind])
                common = np.prod(np.maximum(sides, 0), axis=1)
                keep[behind] &= ~(common / (areas[at] + areas[behind] - common) > threshold)
    return keep
