"""`torch.nn.modules` beyond `rushlight.nn.modules`."""
