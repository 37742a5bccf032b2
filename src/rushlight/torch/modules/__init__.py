"""What the alias has beyond Rushlight: names of `torch` itself, and its modules that say what they cannot do."""

__version__ = "2.13.0"
