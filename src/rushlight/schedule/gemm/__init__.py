"""Recognition of matrix products by their loop structure."""
