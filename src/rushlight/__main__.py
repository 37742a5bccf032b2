"""`python -m rushlight`: the command line, where its script is not on the path."""

from rushlight.cli.app import main

if __name__ == "__main__":
    main()
