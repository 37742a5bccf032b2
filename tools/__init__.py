"""Checks and generators of the repository; not part of the package."""
