"""`python -m mergedog` is the command."""

from mergedog.cli import main

main()
