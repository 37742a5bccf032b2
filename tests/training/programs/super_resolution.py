"""Super-resolution: digits at half their size, made large by a sub-pixel convolution (Shi et al., 2016)."""

from sklearn.datasets import load_digits

import rushlight as torch

nn, F = torch.nn, torch.nn.functional


class Net(nn.Module):
    def __init__(self, upscale_factor):
        super().__init__()
        self.relu = nn.ReLU(inplace=True)
        self.conv1 = nn.Conv2d(1, 32, (5, 5), (1, 1), (2, 2))
        self.conv2 = nn.Conv2d(32, 32, (3, 3), (1, 1), (1, 1))
        self.conv3 = nn.Conv2d(32, 16, (3, 3), (1, 1), (1, 1))
        self.conv4 = nn.Conv2d(16, upscale_factor**2, (3, 3), (1, 1), (1, 1))
        self.pixel_shuffle = nn.PixelShuffle(upscale_factor)
        self._initialize_weights()

    def forward(self, x):
        base = F.interpolate(x, scale_factor=2, mode="bicubic", align_corners=False)
        x = self.relu(self.conv1(x))
        x = self.relu(self.conv2(x))
        x = self.relu(self.conv3(x))
        return base + self.pixel_shuffle(self.conv4(x))

    def _initialize_weights(self):
        nn.init.orthogonal_(self.conv1.weight, nn.init.calculate_gain("relu"))
        nn.init.orthogonal_(self.conv2.weight, nn.init.calculate_gain("relu"))
        nn.init.orthogonal_(self.conv3.weight, nn.init.calculate_gain("relu"))
        nn.init.orthogonal_(self.conv4.weight)


class Pairs(torch.utils.data.Dataset):
    def __init__(self):
        self.images = torch.tensor(load_digits().images, dtype=torch.float32).unsqueeze(1) / 16

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        target = self.images[index]
        return F.interpolate(target[None], size=(4, 4), mode="bilinear", antialias=True)[0], target


def train(steps=20, compiled=False):
    torch.manual_seed(123)
    loader = torch.utils.data.DataLoader(Pairs(), batch_size=16, shuffle=True)
    model = Net(upscale_factor=2)
    criterion = nn.MSELoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    network = torch.compile(model) if compiled else model
    losses = []
    while True:
        for small, target in loader:
            optimizer.zero_grad()
            loss = criterion(network(small), target)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if len(losses) == steps:
                return losses


if __name__ == "__main__":
    losses = train(steps=200)
    print([10 * torch.log10(1 / torch.tensor(loss)).item() for loss in losses[::20]])
