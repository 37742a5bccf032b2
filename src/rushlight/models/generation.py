"""Texts that models write: token by token, each drawn from the logits of the one before."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

import rushlight as rl
from rushlight.models.decoder import Cache
from rushlight.models.families import load_decoder
from rushlight.models.folder import ModelFolder
from rushlight.support.errors import require
from rushlight.support.frozen import frozen


@frozen
class Sampling:
    """How a token is drawn; a temperature of 0 takes the likeliest.

    Else from the `top_k` likeliest (0: all), and of these from the fewest that together have the probability `top_p`.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    def draw(self, logits: NDArray[np.float32], generator: np.random.Generator) -> int:
        """A token drawn from its logits."""
        if self.temperature == 0:
            return int(logits.argmax())
        scaled = logits.astype(np.float64) / self.temperature
        likeliest = np.argsort(-scaled, kind="stable")[: self.top_k or None]
        weights = np.exp(scaled[likeliest] - scaled[likeliest[0]])
        weights /= weights.sum()
        before = np.cumsum(weights) - weights
        weights[(before >= self.top_p) & (before > 0)] = 0
        return int(generator.choice(likeliest, p=weights / weights.sum()))


class Generator:
    """Continues tokens by a folder's decoder, which is compiled for all lengths.

    Keys and values of tokens that it has seen are kept: a prompt that begins like the one before begins behind it.
    """

    def __init__(self, folder: ModelFolder, weights: str | None = None) -> None:
        self.model = load_decoder(folder, weights)
        ends = folder.optional_json("generation_config.json").get("eos_token_id", folder.config.get("eos_token_id"))
        self.ends: frozenset[int] = frozenset(ends if isinstance(ends, list) else [ends] if ends is not None else [])
        self._step: Callable[..., rl.Tensor] = rl.compile(self.model)
        self._caches: list[Cache] = []
        self._seen: list[int] = []

    def generate(self, prompt: Sequence[int], most: int, sampling: Sampling | None = None) -> Iterator[int]:
        """At most `most` tokens that follow a prompt, each when it is found, up to the first end.

        S002 for an empty prompt or one that leaves no room in the model's context.
        """
        sampling = sampling or Sampling()
        room = self.model.context - len(prompt)
        require(len(prompt) > 0 and room > 0, "S002", "generate: the prompt is empty or fills the context", room=room)
        inside = all(0 <= token < self.model.vocabulary for token in prompt)
        require(inside, "I002", "generate: a token is not in the vocabulary", vocabulary=self.model.vocabulary)
        most = min(most, room)
        self._make_room(len(prompt) + most)
        same = next((at for at, pair in enumerate(zip(self._seen, prompt, strict=False)) if pair[0] != pair[1]), None)
        reused = min(len(self._seen) if same is None else same, len(prompt) - 1)
        del self._seen[reused:]
        generator = np.random.default_rng(sampling.seed)
        fresh = list(prompt[reused:])
        for _ in range(most):
            logits = self._logits(fresh)
            token = sampling.draw(logits, generator)
            yield token
            if token in self.ends:
                return
            fresh = [token]

    def _logits(self, tokens: list[int]) -> NDArray[np.float32]:
        with rl.no_grad():
            logits = self._step(rl.tensor([tokens]), self._caches, len(self._seen))
        self._seen += tokens
        return logits.numpy()

    def _make_room(self, capacity: int) -> None:
        had = self._caches[0][0].shape[2] if self._caches else 0
        if capacity <= had:
            return
        caches = self.model.caches(min(self.model.context, max(capacity, 2 * had)))
        for old, new in zip(self._caches, caches, strict=False):
            for before, after in zip(old, new, strict=True):
                after[:, :, :had] = before
        self._caches = caches
