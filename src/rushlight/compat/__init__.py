"""Names that PyTorch has for questions about tensors and dtypes, kept here for `rushlight` itself."""
