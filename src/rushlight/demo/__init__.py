"""The demo: a byte-level GPT trained on the source of the standard library. It uses public names only."""
