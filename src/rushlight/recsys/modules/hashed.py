"""Ids without bounds as rows of a hash table: an id has the row of its hash, or one of those behind it.

A module is trained while it looks ids up: an id that has no row takes the first free one of its probes, or one whose
id has expired. Where there is none, it shares the row of its hash.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from enum import Enum, unique
from typing import Any, NamedTuple

import rushlight as rl
from rushlight import Tensor
from rushlight.compiler import disable
from rushlight.recsys.modules.collisions import ManagedCollisionModule, Rows, with_values
from rushlight.recsys.sparse import JaggedTensor
from rushlight.support.errors import fail, require
from rushlight.support.frozen import frozen

FREE = -1
"""What stands for no id."""


@unique
class HashZchEvictionPolicyName(Enum):
    """When an id loses its row: as soon as another wants it and it has expired, or the one that expires first."""

    SINGLE_TTL_EVICTION = "SINGLE_TTL_EVICTION"
    PER_FEATURE_TTL_EVICTION = "PER_FEATURE_TTL_EVICTION"
    LRU_EVICTION = "LRU_EVICTION"


@frozen
class HashZchEvictionConfig:
    """How many hours after it came last an id may lose its row: one number, or one for each feature.

    HashZchEvictionConfig(features=["user"], single_ttl=24)
    """

    features: Sequence[str]
    single_ttl: int | None = None
    per_feature_ttl: Sequence[int] | None = None


class _Homes(NamedTuple):
    """For each id the place of its hash in its bucket, the bucket's first row and number of rows."""

    start: Tensor
    first: Tensor
    size: Tensor

    def rows(self, probe: int, chosen: Tensor) -> Tensor:
        """Return the rows of some ids at a probe: those behind the hash, around the end of the bucket."""
        return self.first[chosen] + (self.start[chosen] + probe) % self.size[chosen]


class HashZchManagedCollisionModule(ManagedCollisionModule):
    """Gives each id one of the `max_probe` rows from its hash on, which are in the bucket of the id.

    Buckets have equally many rows. Ids below an `input_hash_size` are divided among them in ranges, others by their
    remainder. With an eviction policy rows expire some hours after their id came last. Of ids that want a row in one
    batch the lesser has it. Rows of ids that have one are those of TorchRec's tables. Errors: A002 for options of
    TorchRec's that are not here, E001 for rows that buckets do not divide.

    module = HashZchManagedCollisionModule(1000, total_num_buckets=4)
    """

    def __init__(
        self,
        zch_size: int,
        device: Any = None,
        total_num_buckets: int = 1,
        max_probe: int = 128,
        input_hash_size: int = 0,
        output_segments: Sequence[int] | None = None,
        is_inference: bool = False,
        name: str | None = None,
        eviction_policy_name: HashZchEvictionPolicyName | None = None,
        eviction_config: HashZchEvictionConfig | None = None,
        start_bucket: int = 0,
        end_bucket: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        del name
        odd = sorted(option for option, value in options.items() if value not in (None, False, 0, -1, True))
        require(not odd, "A002", "HashZchManagedCollisionModule: there are no such options here", options=odd)
        for what, size in (("zch_size", zch_size), ("max_probe", max_probe), ("total_num_buckets", total_num_buckets)):
            require(isinstance(size, int) and size >= 1, "E001", f"{what} is no positive integer", given=size)
        even = [zch_size // total_num_buckets * bucket for bucket in range(total_num_buckets + 1)]
        self._segments = even if output_segments is None else list(output_segments)
        last = total_num_buckets if end_bucket is None else end_bucket
        fits = len(self._segments) == total_num_buckets + 1 and 0 <= start_bucket < last <= total_num_buckets
        self._first, self._last = (self._segments[start_bucket], self._segments[last]) if fits else (0, -1)
        fits = fits and self._segments[0] == 0 and self._last - self._first == zch_size
        message = "the buckets do not divide the rows"
        require(fits, "E001", message, rows=zch_size, buckets=total_num_buckets, segments=self._segments)
        self._size, self._probes, self._input_size = zch_size, max_probe, input_hash_size
        self._policy, self._config, self._is_inference = eviction_policy_name, eviction_config, is_inference
        self._require_hours()
        self._evicted: list[Tensor] = []
        ids = rl.full((zch_size, 1), FREE, dtype=rl.int64, device=device)
        self.register_buffer("_hash_zch_identities", ids)
        hours = rl.full((zch_size, 1), -1, dtype=rl.int32, device=device) if eviction_policy_name else None
        self.register_buffer("_hash_zch_metadata", hours)
        self.register_buffer("_hash_zch_bucket", rl.tensor([[total_num_buckets]]))
        if is_inference:
            self.reset_inference_mode()

    def _require_hours(self) -> None:
        """E001 unless there are the hours that the policy needs."""
        policy, config = self._policy, self._config
        if policy is None:
            return
        if policy is HashZchEvictionPolicyName.PER_FEATURE_TTL_EVICTION:
            fits = config is not None and len(config.per_feature_ttl or ()) == len(config.features)
        else:
            fits = config is not None and config.single_ttl is not None
        require(fits, "E001", f"{policy.value}: the hours after which rows expire are missing", config=config)

    def output_size(self) -> int:
        """Return the number of rows."""
        return self._size

    def input_size(self) -> int:
        """Return what ids are below; 0 without a bound."""
        return self._input_size

    def buckets(self) -> int:
        """Return into how many parts the map is divided."""
        return len(self._segments) - 1

    def bounds(self) -> list[int]:
        """Return the first row of each bucket, and at last the end of all."""
        return [row for row in self._segments if self._first <= row <= self._last]

    def bucket_of(self, ids: Tensor) -> Tensor:
        """Return the bucket of each id: its range, or its remainder. E006 for ids beyond a bound."""
        count = self.buckets()
        bucket = ids // -(-self._input_size // count) if self._input_size else ids % count
        fits = not ids.shape[0] or (int(bucket.min()) >= 0 and int(bucket.max()) < count)
        require(fits, "E006", "ids are below input_hash_size", input_hash_size=self._input_size)
        return bucket

    def row_buffers(self) -> list[str]:
        """Return the names of the buffers that have an entry for each row."""
        return ["_hash_zch_identities", *([] if self._hash_zch_metadata is None else ["_hash_zch_metadata"])]

    def rebuild_with_output_id_range(
        self, output_id_range: tuple[int, int], output_segments: Sequence[int] | None = None, device: Any = None
    ) -> HashZchManagedCollisionModule:
        """Return an empty module of some of the buckets, whose rows are in a range."""
        first, end = output_id_range
        return HashZchManagedCollisionModule(
            end - first,
            device,
            self.buckets(),
            self._probes,
            self._input_size,
            self._segments,
            self._is_inference,
            eviction_policy_name=self._policy,
            eviction_config=self._config,
            start_bucket=self._segments.index(first),
            end_bucket=self._segments.index(end),
        )

    def open_slots(self) -> Tensor:
        """Return how many rows have no id."""
        return (self._hash_zch_identities == FREE).sum().reshape(1)

    def reset_inference_mode(self) -> None:
        """Look ids up only from now on."""
        self.eval()
        self._is_inference, self._evicted = True, []
        self.register_buffer("_hash_zch_metadata", None)

    def reset_training_mode(self) -> None:
        """Give rows to new ids from now on; rows that have ids expire as if these came now."""
        self._is_inference = False
        self.train()
        if self._policy is not None and self._hash_zch_metadata is None:
            ids = self._hash_zch_identities
            now = rl.full_like(ids, _hour(), dtype=rl.int32)
            self.register_buffer("_hash_zch_metadata", rl.where(ids == FREE, rl.full_like(now, -1), now))

    def preprocess(self, features: Rows) -> Rows:
        """Return the ids."""
        return features

    def profile(self, features: Rows) -> Rows:
        """Return the ids."""
        return features

    def remap(self, features: Rows) -> Rows:
        """Return the rows of ids; while this module is trained, ids take rows first."""
        return {name: with_values(own, self._mapped(own)) for name, own in features.items()}

    # How many probes ids need is a value of memory: graphs leave it to Python.
    @disable
    def _mapped(self, feature: JaggedTensor) -> Tensor:
        with rl.no_grad():
            ids, inverse = rl.unique(feature.values().long(), return_inverse=True)
            homes = self._homes(ids)
            rows = self._known(ids, homes)
            if self.training and not self._is_inference:
                self._give(ids, homes, rows, self._expiry(feature, inverse, ids.shape[0]))
            return rl.where(rows == FREE, homes.first + homes.start, rows)[inverse] + self._first

    def _homes(self, ids: Tensor) -> _Homes:
        segments, bucket = rl.tensor(self._segments), self.bucket_of(ids)
        size = (segments[1:] - segments[:-1])[bucket]
        return _Homes(remainder(hashed(ids), size), segments[:-1][bucket] - self._first, size)

    def _known(self, ids: Tensor, homes: _Homes) -> Tensor:
        """The rows that ids have, FREE where an id has none: a free row ends the search."""
        held, rows = self._hash_zch_identities[:, 0], rl.full_like(ids, FREE)
        pending = rl.arange(ids.shape[0])
        for probe in range(min(self._probes, self._size)):
            if not pending.shape[0]:
                break
            at = homes.rows(probe, pending)
            there = held[at] == ids[pending]
            rows[pending[there]] = at[there]
            pending = pending[~there & (held[at] != FREE)]
        return rows

    def _expiry(self, feature: JaggedTensor, inverse: Tensor, count: int) -> Tensor:
        """The hour in which each id that comes now expires."""
        config = self._config
        if self._policy is None or config is None:
            return rl.zeros(count, dtype=rl.int32)
        if self._policy is not HashZchEvictionPolicyName.PER_FEATURE_TTL_EVICTION:
            return rl.full((count,), _hour() + (config.single_ttl or 0), dtype=rl.int32)
        counts = feature.weights_or_none()
        if counts is None or counts.shape[0] != len(config.features):
            fail("E003", "ids of several features have as weights how many there are of each", weights=counts)
        hours = rl.tensor(list(config.per_feature_ttl or ()), dtype=rl.int32).repeat_interleave(counts.long())
        latest = rl.zeros(count, dtype=rl.int32).scatter_reduce_(0, inverse, hours, "amax")
        return latest + _hour()

    def _give(self, ids: Tensor, homes: _Homes, rows: Tensor, expiry: Tensor) -> None:
        """Give rows to ids that have none, in the order of ids."""
        hours = self._hash_zch_metadata
        if hours is not None:
            known = rows != FREE
            hours[rows[known], 0] = rl.maximum(hours[rows[known], 0], expiry[known])
        is_last = self._policy is HashZchEvictionPolicyName.LRU_EVICTION
        pending = (rows == FREE).nonzero().flatten()
        for probe in range(min(self._probes, self._size)):
            if not pending.shape[0]:
                return
            at = homes.rows(probe, pending)
            wanted = self._hash_zch_identities[at, 0] == FREE
            if hours is not None and not is_last:
                wanted = wanted | self._expired(at, expiry[pending])
            self._take(ids, rows, expiry, pending[wanted], at[wanted])
            pending = pending[rows[pending] == FREE]
        while is_last and pending.shape[0]:
            at, there = self._oldest(homes, expiry, pending)
            pending = pending[there]
            self._take(ids, rows, expiry, pending, at[there])
            pending = pending[rows[pending] == FREE]

    def _expired(self, at: Tensor, expiry: Tensor) -> Tensor:
        hours = self._hash_zch_metadata[at, 0]
        return (hours < _hour()) & (hours < expiry)

    def _oldest(self, homes: _Homes, expiry: Tensor, pending: Tensor) -> tuple[Tensor, Tensor]:
        """The row among each id's probes that has expired first, and whether there is one."""
        best = rl.full_like(pending, 2**31 - 1)
        found = rl.full_like(pending, FREE)
        for probe in range(min(self._probes, self._size)):
            at = homes.rows(probe, pending)
            hours = self._hash_zch_metadata[at, 0].long()
            better = self._expired(at, expiry[pending]) & (hours < best)
            best, found = rl.where(better, hours, best), rl.where(better, at, found)
        return found, found != FREE

    def _take(self, ids: Tensor, rows: Tensor, expiry: Tensor, wanting: Tensor, at: Tensor) -> None:
        """Give rows that ids want to the first id that wants each."""
        order = at.argsort(stable=True)
        at, wanting = at[order], wanting[order]
        first = rl.ones(at.shape[0], dtype=rl.bool)
        first[1:] = at[1:] != at[:-1]
        at, wanting = at[first], wanting[first]
        held = self._hash_zch_identities[at, 0]
        self._evicted.append(at[held != FREE])
        self._hash_zch_identities[at, 0] = ids[wanting]
        if self._hash_zch_metadata is not None:
            self._hash_zch_metadata[at, 0] = expiry[wanting]
        rows[wanting] = at

    def evict(self) -> Tensor | None:
        """Return the rows that have another id than when this was asked last, ascending, or None."""
        evicted, self._evicted = self._evicted, []
        rows = rl.cat(evicted).unique() + self._first if evicted else None
        return rows if rows is not None and rows.shape[0] else None


def _hour() -> int:
    return int(time.time() / 3600)


_FIRST, _SECOND = -0x783C846EEEBDAC2B, 0x4CF5AD432745937F
_MIX = (-0xAE502812AA7333, -0x3B314601E57A13AD)


def hashed(ids: Tensor) -> Tensor:
    """Return the hash of each id.

    MurmurHash3 (x64, 128 bits, seed 0) of its 8 bytes and 8 bytes of 0, both halves joined by exclusive or.
    """
    low = _rotated(_rotated(ids * _FIRST, 31) * _SECOND, 27) * 5 + 0x52DCE729
    high = low * 5 + 0x38495AB5
    low, high = low ^ 16, high ^ 16
    low = low + high
    high = high + low
    low, high = _mixed(low), _mixed(high)
    low = low + high
    return low ^ (high + low)


def _rotated(bits: Tensor, by: int) -> Tensor:
    return (bits << by) | _shifted(bits, 64 - by)


def _shifted(bits: Tensor, by: int) -> Tensor:
    """Bits moved to the right, with zeros from the left."""
    return (bits >> by) & (2 ** (64 - by) - 1)


def _mixed(bits: Tensor) -> Tensor:
    for factor in _MIX:
        bits = (bits ^ _shifted(bits, 33)) * factor
    return bits ^ _shifted(bits, 33)


def remainder(bits: Tensor, size: Tensor) -> Tensor:
    """Return the remainders of 64 bits as numbers that are not negative."""
    whole = ((2**63 - 1) % size * 2 + 2) % size
    return (bits % size + rl.where(bits < 0, whole, 0)) % size
