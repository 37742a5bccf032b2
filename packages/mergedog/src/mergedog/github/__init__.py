"""GitHub's REST API as a `Forge`."""
