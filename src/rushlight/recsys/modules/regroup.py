"""Columns of several keyed tensors put together by groups, as a module."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight import Tensor
from rushlight.nn import Module
from rushlight.recsys.configs import DataType
from rushlight.recsys.sparse import KeyedTensor
from rushlight.support.errors import require


class KTRegroupAsDict(Module):
    """`KeyedTensor.regroup_as_dict` as a module: `groups` of keys by the names in `keys`, as numbers of `emb_dtype`.

    KTRegroupAsDict([["a", "b"], ["c"]], ["user", "item"])([pooled])["user"]
    """

    def __init__(
        self,
        groups: Sequence[Sequence[str]],
        keys: Sequence[str],
        emb_dtype: DataType | None = None,
        multi_device: bool = False,
    ) -> None:
        super().__init__()
        del multi_device
        fits = len(groups) == len(keys)
        require(fits, "E003", "KTRegroupAsDict: a name for each group is needed", groups=len(groups), keys=len(keys))
        self._groups, self._keys, self._dtype = [list(group) for group in groups], list(keys), emb_dtype

    def forward(self, keyed_tensors: Sequence[KeyedTensor]) -> dict[str, Tensor]:
        """Return the columns of each group's keys, side by side."""
        found = KeyedTensor.regroup_as_dict(keyed_tensors, self._groups, self._keys)
        dtype = None if self._dtype is None else self._dtype.dtype
        return found if dtype is None else {key: columns.to(dtype) for key, columns in found.items()}
