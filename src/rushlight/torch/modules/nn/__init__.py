"""`torch.nn` beyond `rushlight.nn`."""
