"""Segmentation by a U-Net (Ronneberger et al., 2015): which pixels of a noisy picture lie in a disc."""

import rushlight as torch

nn, F = torch.nn, torch.nn.functional


class DoubleConv(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.double_conv = nn.Sequential(
            nn.Conv2d(in_channels, out_channels, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(out_channels),
            nn.ReLU(inplace=True),
            nn.Conv2d(out_channels, out_channels, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(out_channels),
            nn.ReLU(inplace=True),
        )

    def forward(self, x):
        return self.double_conv(x)


class Up(nn.Module):
    def __init__(self, in_channels, out_channels, bilinear):
        super().__init__()
        if bilinear:
            self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
            self.conv = DoubleConv(in_channels + out_channels, out_channels)
        else:
            self.up = nn.ConvTranspose2d(in_channels, out_channels, kernel_size=2, stride=2)
            self.conv = DoubleConv(2 * out_channels, out_channels)

    def forward(self, x1, x2):
        x1 = self.up(x1)
        diff_y = x2.size()[2] - x1.size()[2]
        diff_x = x2.size()[3] - x1.size()[3]
        x1 = F.pad(x1, [diff_x // 2, diff_x - diff_x // 2, diff_y // 2, diff_y - diff_y // 2])
        return self.conv(torch.cat([x2, x1], dim=1))


class UNet(nn.Module):
    def __init__(self, n_channels=1, n_classes=1, width=4):
        super().__init__()
        self.inc = DoubleConv(n_channels, width)
        self.down1 = nn.Sequential(nn.MaxPool2d(2), DoubleConv(width, 2 * width))
        self.down2 = nn.Sequential(nn.MaxPool2d(2), DoubleConv(2 * width, 4 * width))
        self.up1 = Up(4 * width, 2 * width, bilinear=True)
        self.up2 = Up(2 * width, width, bilinear=False)
        self.outc = nn.Conv2d(width, n_classes, kernel_size=1)

    def forward(self, x):
        x1 = self.inc(x)
        x2 = self.down1(x1)
        x3 = self.down2(x2)
        x = self.up1(x3, x2)
        x = self.up2(x, x1)
        return self.outc(x)


def dice_loss(logits, target, smooth=1.0):
    probs = torch.sigmoid(logits).flatten(1)
    target = target.flatten(1)
    intersection = (probs * target).sum(dim=1)
    return 1 - ((2 * intersection + smooth) / (probs.sum(dim=1) + target.sum(dim=1) + smooth)).mean()


def make_batch(size=4, side=14):
    center = torch.rand(size, 2, 1, 1) * (side - 6) + 3
    radius = torch.rand(size, 1, 1) * 3 + 2
    y, x = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    inside = (y - center[:, 0]) ** 2 + (x - center[:, 1]) ** 2 <= radius**2
    masks = inside.float().unsqueeze(1)
    return masks + 0.5 * torch.randn(size, 1, side, side), masks


def train(steps=20, compiled=False):
    torch.manual_seed(0)
    model = UNet()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3, weight_decay=1e-8, momentum=0.9, foreach=True)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, "min", patience=5)
    criterion = nn.BCEWithLogitsLoss()
    network = torch.compile(model) if compiled else model
    losses = []
    for _ in range(steps):
        images, true_masks = make_batch()
        masks_pred = network(images)
        loss = criterion(masks_pred, true_masks) + dice_loss(masks_pred, true_masks)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step(loss.item())
        losses.append(loss.item())
    return losses


if __name__ == "__main__":
    print(train(steps=200)[::20])
