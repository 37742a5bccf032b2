"""Benchmarks, alone or beside a peer. What is measured uses public names only, so that a peer can run the same text."""
