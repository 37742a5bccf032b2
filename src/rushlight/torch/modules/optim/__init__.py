"""`torch.optim` beyond `rushlight.optim`."""
