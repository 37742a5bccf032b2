"""Simulation of jobs: one rank of each class runs without data, and a time line of all of them is computed."""

from rushlight.distributed.simulation.costs import Link
from rushlight.distributed.simulation.recording import mark
from rushlight.distributed.simulation.result import Simulation
from rushlight.distributed.simulation.simulating import sim

__all__ = ["Link", "Simulation", "mark", "sim"]
