"""What devices are asked: one module of tests for each tier. `rushlight.testing.device` has them run."""
