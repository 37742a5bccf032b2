"""Hosts: how each framework prepares and runs a benchmark case."""
