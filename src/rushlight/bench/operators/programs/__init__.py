"""The benchmarks, by family: numpy's result beside the text in PyTorch's API that Rushlight and torch run."""
