"""Text that an outsider may have written, as a type of its own.

`Untrusted` is no `str`: CPython loses subclasses of `str` in f-strings, `str.join`, `%` and `json.dumps`. Here these
raise, and the operations below return `Untrusted` again. The only way out is `reveal`, which logs what left and why.

>>> title = Untrusted("Fix the lexer", "title")
>>> title[:3].join_with(" ", [title])
<untrusted text from title, 13 characters>
"""

import logging
import re
from collections.abc import Iterable, Iterator
from typing import LiteralString, NoReturn, Self, SupportsIndex

LOG = logging.getLogger("mergedog.revealed")


class TaintError(TypeError):
    """Untrusted text was about to become trusted without anyone saying so."""


class Untrusted:
    """Immutable text with the name of its source.

    Equality compares with other untrusted text only, and hashing works, so that it can be a key.
    """

    __slots__ = ("__source", "__text")

    def __init__(self, text: str, source: str) -> None:
        if type(text) is not str:
            raise TaintError(f"untrusted text is made of a str, not of {type(text).__name__}")
        self.__text = text
        self.__source = source

    # ------------------------------------------------------------ what keeps the taint

    @property
    def source(self) -> str:
        """Where the text is from, such as `title` or `log`."""
        return self.__source

    def __len__(self) -> int:
        return len(self.__text)

    def __getitem__(self, index: SupportsIndex | slice) -> "Untrusted":
        return Untrusted(self.__text[index], self.__source)

    def __iter__(self) -> Iterator["Untrusted"]:
        return (Untrusted(character, self.__source) for character in self.__text)

    def __add__(self, other: object) -> "Untrusted":
        if not isinstance(other, str | Untrusted):
            return NotImplemented
        return Untrusted(self.__text + _text(other), _sources([self, other]))

    def __radd__(self, other: object) -> "Untrusted":
        if not isinstance(other, str):
            return NotImplemented
        return Untrusted(other + self.__text, self.__source)

    def __mul__(self, count: int) -> "Untrusted":
        return Untrusted(self.__text * count, self.__source)

    def join_with(self, separator: str, others: Iterable["str | Untrusted"]) -> "Untrusted":
        """Return this text and `others`, with `separator` between them."""
        return joined(separator, [self, *others])

    def lines(self) -> list["Untrusted"]:
        """Return the lines, without their ends."""
        return [Untrusted(line, self.__source) for line in self.__text.splitlines()]

    def strip(self) -> "Untrusted":
        """Return the text without white space around it."""
        return Untrusted(self.__text.strip(), self.__source)

    def substitute(self, pattern: re.Pattern[str], replacement: LiteralString) -> "Untrusted":
        """Return the text with every match of `pattern` replaced."""
        return Untrusted(pattern.sub(replacement, self.__text), self.__source)

    # ------------------------------------------------------------ questions whose answers are no text

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            raise TaintError("untrusted text is compared with a str: use matches() or contains()")
        return isinstance(other, Untrusted) and self.__text == other.__text

    def __hash__(self) -> int:
        return hash((Untrusted, self.__text))

    def __repr__(self) -> str:
        return f"<untrusted text from {self.__source}, {len(self.__text)} characters>"

    def contains(self, text: str) -> bool:
        """Whether `text` occurs."""
        return text in self.__text

    def matches(self, pattern: re.Pattern[str]) -> bool:
        """Whether `pattern` is found anywhere."""
        return pattern.search(self.__text) is not None

    # ------------------------------------------------------------ what would lose the taint

    def __str__(self) -> str:
        raise self._refusal("str()")

    def __format__(self, specification: str) -> str:
        raise self._refusal("an f-string or format()")

    def __bytes__(self) -> bytes:
        raise self._refusal("bytes()")

    def __fspath__(self) -> str:
        raise self._refusal("a path")

    def __int__(self) -> int:
        raise self._refusal("int()")

    def __float__(self) -> float:
        raise self._refusal("float()")

    def __index__(self) -> int:
        raise self._refusal("an index")

    def __contains__(self, item: object) -> bool:
        raise self._refusal("`in`: use contains()")

    def __rmod__(self, template: object) -> NoReturn:
        raise self._refusal("the operator %")

    def __mod__(self, values: object) -> NoReturn:
        raise self._refusal("the operator %")

    def __reduce__(self) -> NoReturn:
        raise self._refusal("pickle")

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def _refusal(self, how: str) -> TaintError:
        return TaintError(f"text from {self.__source} would lose its taint through {how}")


def joined(separator: str, parts: Iterable[str | Untrusted], source: str = "joined") -> Untrusted:
    """Return `parts` with `separator` between them, as untrusted text."""
    parts = list(parts)
    return Untrusted(separator.join(_text(part) for part in parts), _sources(parts) or source)


def composed(template: LiteralString, *parts: str | Untrusted) -> Untrusted:
    """Return `template` with each `{}` replaced by the next part, as untrusted text."""
    pieces = template.split("{}")
    if len(pieces) != len(parts) + 1:
        raise ValueError(f"{len(pieces) - 1} places for {len(parts)} parts")
    text = pieces[0] + "".join(_text(part) + piece for part, piece in zip(parts, pieces[1:], strict=True))
    return Untrusted(text, _sources(parts) or "composed")


def reveal(text: Untrusted, reason: LiteralString) -> str:
    """Return the text as a `str`: the one explicit way out, which logs source, size and reason.

    The text itself is not logged.
    """
    if type(text) is not Untrusted:
        raise TaintError(f"only untrusted text is revealed, not {type(text).__name__}")
    LOG.info("revealed %d characters from %s: %s", len(text), text.source, reason)
    return _text(text)


def trusted(text: object) -> str:
    """Assert that something is plain text of ours, and return it: what sinks call."""
    if type(text) is not str:
        raise TaintError(f"a sink takes plain str, not {type(text).__name__}")
    return text


def _text(part: str | Untrusted) -> str:
    """Return the characters of a part; only this module calls it."""
    if isinstance(part, Untrusted):
        text: str = object.__getattribute__(part, "_Untrusted__text")
        return text
    return trusted(part)


def _sources(parts: Iterable[str | Untrusted]) -> str:
    """Return the sources of the untrusted among `parts`, each once."""
    names = {name for part in parts if isinstance(part, Untrusted) for name in part.source.split("+")}
    return "+".join(sorted(names))
