"""Outside text that is parsed into a narrow form: commits, logins, names of checks, branches.

What parses has a safe alphabet and a bounded length, and is a plain `str` from then on. What does not parse raises
`Malformed`, or is replaced where a display name is wanted.
"""

import hashlib
import re

from mergedog.errors import Malformed

SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?\Z")
LOGIN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,62})(?:\[bot\])?\Z")
REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,38}/[A-Za-z0-9_.][A-Za-z0-9_.-]{0,99}\Z")
BRANCH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./+#-]{0,199}\Z")
CHECK = re.compile(r"[^A-Za-z0-9 ._/(),:+=~-]+")
CHECK_CHARACTERS = 100


def _parsed(pattern: re.Pattern[str], value: object, what: str) -> str:
    if type(value) is not str or not pattern.match(value):
        raise Malformed(f"the forge answered with something that is no {what}")
    return value


def sha(value: object) -> str:
    """Return the name of a commit or tree: 40 or 64 hexadecimal digits."""
    return _parsed(SHA, value, "commit")


def login(value: object) -> str:
    """Return the login of an account."""
    return _parsed(LOGIN, value, "login")


def repository(value: object) -> str:
    """Return `owner/name`."""
    return _parsed(REPOSITORY, value, "repository")


def branch(value: object) -> str:
    """Return the name of a branch that git takes for nothing else."""
    name = _parsed(BRANCH, value, "branch name")
    if ".." in name or "//" in name or name.endswith(("/", ".", ".lock")):
        raise Malformed("the forge answered with a branch name that git refuses")
    return name


def check(value: object) -> str:
    """Return the name of a workflow or job in a small alphabet, for people to read; never for a prompt.

    A name that is changed gets a digest, so that two names stay two.

    >>> check("build `rm -rf`")
    'build ?rm -rf? ~f1262d1d'
    """
    if type(value) is not str:
        raise Malformed("the forge answered with a check that has no name")
    name = CHECK.sub("?", value)[:CHECK_CHARACTERS]
    if name == value and name.strip():
        return name
    return f"{name} ~{hashlib.sha256(value.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
