"""The command."""


def main() -> None:
    """Run the command."""
