"""`torch.utils.data._utils`: what packages import of the parts of a loader."""
