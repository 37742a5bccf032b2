"""What can go wrong between this program and a forge, a repository or an agent.

Messages are ours: none repeats what a forge answered, so that no secret and no outside text travels in an exception.
"""


class MergedogError(Exception):
    """Anything that this program raises on purpose."""


class ForgeError(MergedogError):
    """The forge did not do what was asked; asking again later may help."""


class Unavailable(ForgeError):
    """The forge cannot be reached, or reports a failure of its own."""


class Malformed(ForgeError):
    """An answer of the forge is not what its interface promises."""


class Refused(ForgeError):
    """The forge refuses: a permission is missing, or the request makes no sense now."""


class NotFound(ForgeError):
    """What was asked for does not exist."""


class RateLimited(ForgeError):
    """The forge asks to wait.

    `until` is in seconds since the epoch.
    """

    def __init__(self, until: float) -> None:
        super().__init__("the forge asks to wait")
        self.until = until


class RepositoryError(MergedogError):
    """git failed."""


class Diverged(RepositoryError):
    """A branch is not where it was expected, so nothing was pushed."""


class Conflict(RepositoryError):
    """Two commits cannot be merged without a decision."""


class BoundReached(MergedogError):
    """An automatic action has been taken as often as the policy allows."""


class StateError(MergedogError):
    """The state on disk cannot be used."""


class PolicyError(MergedogError):
    """The policy file says something that cannot be."""
