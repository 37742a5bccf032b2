"""`torch.utils` beyond `rushlight.utils`."""
