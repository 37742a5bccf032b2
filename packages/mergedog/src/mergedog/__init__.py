"""mergedog shepherds one approved pull request to green, and hands it to a human for the merge."""

__version__ = "0.1.0"
