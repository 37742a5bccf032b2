"""Texts as numbers of tokens and back, by the library `tokenizers` (extra `hf`)."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any

from rushlight.models.folder import ModelFolder
from rushlight.support.errors import error, require

_FILE = "tokenizer.json"


def _library(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as cause:
        raise error(
            "N004", f"models: {name} is not installed", hint="install what folders need: pip install 'rushlight[hf]'"
        ) from cause


class Tokenizer:
    """The tokenizer of a folder."""

    def __init__(self, folder: ModelFolder) -> None:
        path = folder.path / _FILE
        require(path.is_file(), "P001", f"models: there is no {_FILE} in {folder.path}")
        try:
            self._tokenizer: Any = _library("tokenizers").Tokenizer.from_file(str(path))
        except Exception as cause:
            if type(cause).__module__.startswith("rushlight"):
                raise
            raise error("P002", f"models: {path} is damaged: {cause}") from cause
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._options = folder.optional_json("tokenizer_config.json")

    def encode(self, texts: Sequence[str], longest: int | None = None) -> list[list[int]]:
        """The tokens of each text with the special ones around it, cut off after `longest`."""
        if longest is not None:
            self._tokenizer.enable_truncation(longest)
        try:
            return [list(encoding.ids) for encoding in self._tokenizer.encode_batch(list(texts))]
        finally:
            self._tokenizer.no_truncation()

    def encode_prompt(self, text: str) -> list[int]:
        """The tokens of a rendered conversation, which has its special tokens in it."""
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def stream(self, tokens: Iterable[int]) -> Iterator[str]:
        """The text of tokens as they come: a part is given when no later token can change it."""
        seen: list[int] = []
        shown = 0
        for token in tokens:
            seen.append(token)
            text = self._tokenizer.decode(seen)
            if not text.endswith("\ufffd"):
                yield text[shown:]
                shown = len(text)
        yield self._tokenizer.decode(seen)[shown:]

    def number(self, token: str) -> int | None:
        """The number of a token; None where there is none."""
        return self._tokenizer.token_to_id(token)

    @property
    def template(self) -> str | None:
        """The template of conversations, in Jinja; None where the model has none."""
        template = self._options.get("chat_template")
        return template if isinstance(template, str) else None

    def render(self, messages: Sequence[dict[str, str]]) -> str:
        """A conversation as the model was trained to see it, up to the begin of its answer.

        `messages`: dicts of `role` ("system", "user", "assistant") and `content`. The template runs in Jinja's sandbox.
        """
        template = self.template
        if template is None:
            return "".join([message["content"] for message in messages])
        sandbox = _library("jinja2.sandbox").ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        special = {name: _content(self._options.get(name)) for name in ("bos_token", "eos_token", "unk_token")}
        try:
            return str(sandbox.from_string(template).render(messages=messages, add_generation_prompt=True, **special))
        except Exception as cause:
            raise error("P002", f"models: the chat template failed: {cause}") from cause


def _content(token: object) -> str:
    """A special token's text, which some files wrap in an object."""
    return str(token.get("content", "")) if isinstance(token, dict) else str(token or "")
