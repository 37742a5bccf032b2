"""Secrets: a token that shows nowhere, and texts from which things that look like secrets are removed."""

import re

SHAPES = re.compile(
    r"gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{20,}|glpat-[\w-]{16,}|AKIA[0-9A-Z]{16}|xox[abpr]-[\w-]{10,}"
    r"|sk-[\w-]{16,}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]{5,}"
    r"|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"
    r"|(?i:(?<=bearer )|(?<=token )|(?<=token=)|(?<=password=))[\w.+/=-]{8,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    re.DOTALL,
)
REMOVED = "(secret removed)"


class Secret:
    """A token. Only `header()` and `expose()` give it out; it prints as `(secret removed)`."""

    __slots__ = ("__value",)

    def __init__(self, value: str) -> None:
        if not value or not value.isascii() or not value.isprintable():
            raise ValueError("a token is printable text")
        self.__value = value

    def __repr__(self) -> str:
        return REMOVED

    def __reduce__(self) -> str:
        raise TypeError("a secret is not pickled")

    def expose(self) -> str:
        """Return the token, for the one place that sends it."""
        return self.__value


def scrub(text: str, *secrets: Secret) -> str:
    """Return `text` without the given secrets, and without anything that has the shape of one."""
    for secret in secrets:
        text = text.replace(secret.expose(), REMOVED)
    return SHAPES.sub(REMOVED, text)
