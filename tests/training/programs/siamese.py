"""A siamese network: pictures of one digit come near each other, others apart (Hadsell et al., 2006)."""

from sklearn.datasets import load_digits

import rushlight as torch

nn, F = torch.nn, torch.nn.functional


class SiameseNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.cnn = nn.Sequential(
            nn.ReflectionPad2d(1),
            nn.Conv2d(1, 4, kernel_size=3),
            nn.ReLU(inplace=True),
            nn.GroupNorm(2, 4),
            nn.AvgPool2d(2),
            nn.Conv2d(4, 8, kernel_size=3),
            nn.ELU(inplace=True),
        )
        self.fc = nn.Sequential(nn.Linear(8 * 2 * 2, 16), nn.PReLU(), nn.Linear(16, 4))

    def forward_once(self, x):
        output = self.cnn(x)
        output = output.view(output.size()[0], -1)
        return F.normalize(self.fc(output))

    def forward(self, input1, input2):
        return self.forward_once(input1), self.forward_once(input2)


class ContrastiveLoss(nn.Module):
    def __init__(self, margin=1.0):
        super().__init__()
        self.margin = margin

    def forward(self, output1, output2, label):
        euclidean_distance = F.pairwise_distance(output1, output2, keepdim=True)
        return torch.mean(
            (1 - label) * torch.pow(euclidean_distance, 2)
            + label * torch.pow(torch.clamp(self.margin - euclidean_distance, min=0.0), 2)
        )


class PairDataset(torch.utils.data.Dataset):
    def __init__(self):
        images, labels = load_digits(return_X_y=True)
        self.images = torch.tensor(images, dtype=torch.float32).view(-1, 1, 8, 8) / 16
        self.labels = torch.tensor(labels)
        order = torch.randperm(len(self.labels))
        self.pairs = torch.stack([torch.arange(len(order)), order], dim=1)

    def __getitem__(self, index):
        first, second = self.pairs[index]
        different = (self.labels[first] != self.labels[second]).float()
        return self.images[first], self.images[second], different.view(1)

    def __len__(self):
        return len(self.pairs)


def train(steps=20, compiled=False):
    torch.manual_seed(5)
    dataset, _ = torch.utils.data.random_split(PairDataset(), [0.8, 0.2])
    dataloader = torch.utils.data.DataLoader(dataset, shuffle=True, batch_size=32)
    net = SiameseNetwork()
    criterion = ContrastiveLoss()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=8)

    def step(img0, img1, label):
        optimizer.zero_grad()
        output1, output2 = net(img0, img1)
        loss = criterion(output1, output2, label)
        loss.backward()
        optimizer.step()
        return loss

    if compiled:
        step = torch.compile(step)
    losses = []
    while True:
        for img0, img1, label in dataloader:
            losses.append(step(img0, img1, label).item())
            scheduler.step()
            if len(losses) == steps:
                return losses


if __name__ == "__main__":
    print(train(steps=200)[::20])
