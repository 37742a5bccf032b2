"""Dense columns by key: the results of pooled lookups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rushlight as rl
from rushlight import Tensor
from rushlight.recsys.configs import repeated
from rushlight.recsys.sparse.segments import prefix_sums
from rushlight.support.errors import fail, require
from rushlight.support.names import did_you_mean
from rushlight.utils._pytree import register_pytree_node


class KeyedTensor:
    """A tensor whose dim `key_dim` is divided among keys.

    pooled = KeyedTensor(["a", "b"], [2, 1], rl.ones(4, 3))
    pooled["a"].shape  # [4, 2]
    """

    _keys: list[str]
    _length_per_key: list[int]
    _values: Tensor
    _key_dim: int

    def __init__(self, keys: Sequence[str], length_per_key: Sequence[int], values: Tensor, key_dim: int = 1) -> None:
        require_keys("KeyedTensor", keys)
        self._keys, self._length_per_key = list(keys), list(length_per_key)
        self._values, self._key_dim = values, key_dim
        fits = len(self._keys) == len(self._length_per_key) and sum(self._length_per_key) == values.shape[key_dim]
        message = "KeyedTensor: lengths of keys do not sum to the size of their dim"
        require(fits, "E003", message, length_per_key=self._length_per_key, values=values)

    @staticmethod
    def from_tensor_list(
        keys: Sequence[str], tensors: Sequence[Tensor], key_dim: int = 1, cat_dim: int = 1
    ) -> KeyedTensor:
        """Return the tensors of keys, joined along a dim."""
        return KeyedTensor(keys, [part.shape[key_dim] for part in tensors], rl.cat(list(tensors), cat_dim), key_dim)

    def keys(self) -> list[str]:
        """Return the keys in order."""
        return self._keys

    def values(self) -> Tensor:
        """Return the columns of all keys."""
        return self._values

    def key_dim(self) -> int:
        """Return the dim that is divided."""
        return self._key_dim

    def device(self) -> Any:
        """Return the device of the values."""
        return self._values.device

    def length_per_key(self) -> list[int]:
        """Return the number of columns of each key."""
        return self._length_per_key

    def offset_per_key(self) -> list[int]:
        """Return the first column of each key, and at last their number."""
        return prefix_sums(self._length_per_key)

    def __getitem__(self, key: str) -> Tensor:
        place = place_of(self._keys, key)
        first = sum(self._length_per_key[:place])
        return self._values.narrow(self._key_dim, first, self._length_per_key[place])

    def to_dict(self) -> dict[str, Tensor]:
        """Return the columns by key, as views."""
        return dict(zip(self._keys, self._values.split(self._length_per_key, self._key_dim), strict=True))

    def to(self, device: object, non_blocking: bool = False) -> KeyedTensor:
        """Return the keyed tensor on a device."""
        del non_blocking
        return KeyedTensor(self._keys, self._length_per_key, self._values.to(device), self._key_dim)

    @staticmethod
    def regroup(keyed_tensors: Sequence[KeyedTensor], groups: Sequence[Sequence[str]]) -> list[Tensor]:
        """Return the columns of each group's keys, side by side; they come from any of the tensors."""
        columns: dict[str, Tensor] = {}
        for keyed in keyed_tensors:
            for key, value in keyed.to_dict().items():
                require(key not in columns, "E002", "regroup: a key is in two tensors", key=key)
                columns[key] = value
        known = list(columns)
        for group in groups:
            for key in group:
                place_of(known, key)
        dim = keyed_tensors[0].key_dim() if keyed_tensors else 1
        return [rl.cat([columns[key] for key in group], dim) for group in groups]

    @staticmethod
    def regroup_as_dict(
        keyed_tensors: Sequence[KeyedTensor], groups: Sequence[Sequence[str]], keys: Sequence[str]
    ) -> dict[str, Tensor]:
        """Return what `regroup` does, by names for the groups."""
        fits = len(groups) == len(keys)
        require(fits, "E003", "regroup_as_dict: a name for each group is needed", groups=len(groups), keys=len(keys))
        return dict(zip(keys, KeyedTensor.regroup(keyed_tensors, groups), strict=True))

    def size_in_bytes(self) -> int:
        """Return the bytes of the values."""
        return self._values.numel() * self._values.element_size()

    def record_stream(self, stream: object) -> None:
        """Do nothing: there are no streams."""
        del stream

    def __repr__(self) -> str:
        return f"KeyedTensor({dict(zip(self._keys, self._length_per_key, strict=True))}, {self._values!r})"


regroup_kts = KeyedTensor.regroup
"""`KeyedTensor.regroup` by another of its names."""


def require_keys(what: str, keys: Sequence[str]) -> None:
    """E002 where a key is there twice."""
    if len(set(keys)) < len(keys):
        fail("E002", f"{what}: a key is there twice", keys=sorted(repeated(keys)))


def place_of(keys: Sequence[str], key: str) -> int:
    """Return the place of a key. E005 where it is missing."""
    try:
        return keys.index(key)
    except ValueError:
        fail("E005", f"there is no key {key!r}", keys=list(keys), hint=did_you_mean(key, keys))


def _parts(keyed: KeyedTensor) -> tuple[list[Tensor], tuple[tuple[str, ...], tuple[int, ...], int]]:
    return [keyed.values()], (tuple(keyed.keys()), tuple(keyed.length_per_key()), keyed.key_dim())


def _made(parts: Any, context: Any) -> KeyedTensor:
    made = KeyedTensor.__new__(KeyedTensor)
    made._keys, made._length_per_key, made._key_dim = list(context[0]), list(context[1]), context[2]
    (made._values,) = parts
    return made


register_pytree_node(KeyedTensor, _parts, _made)
