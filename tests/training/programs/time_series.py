"""Prediction of sine waves by two LSTM cells, trained with LBFGS."""

import numpy as np

import rushlight as torch

nn = torch.nn


class Sequence(nn.Module):
    def __init__(self, hidden=12):
        super().__init__()
        self.hidden = hidden
        self.lstm1 = nn.LSTMCell(1, hidden)
        self.lstm2 = nn.LSTMCell(hidden, hidden)
        self.linear = nn.Linear(hidden, 1)

    def forward(self, input, future=0):
        outputs = []
        h_t = torch.zeros(input.size(0), self.hidden, dtype=torch.double)
        c_t = torch.zeros(input.size(0), self.hidden, dtype=torch.double)
        h_t2 = torch.zeros(input.size(0), self.hidden, dtype=torch.double)
        c_t2 = torch.zeros(input.size(0), self.hidden, dtype=torch.double)

        for input_t in input.split(1, dim=1):
            h_t, c_t = self.lstm1(input_t, (h_t, c_t))
            h_t2, c_t2 = self.lstm2(h_t, (h_t2, c_t2))
            output = self.linear(h_t2)
            outputs += [output]
        for _ in range(future):  # predict from what was predicted
            h_t, c_t = self.lstm1(output, (h_t, c_t))
            h_t2, c_t2 = self.lstm2(h_t, (h_t2, c_t2))
            output = self.linear(h_t2)
            outputs += [output]
        return torch.cat(outputs, dim=1)


def make_waves(count, length, period):
    offsets = np.random.default_rng(2).integers(-4 * period, 4 * period, (count, 1))
    return torch.from_numpy(np.sin((np.arange(length) + offsets) / period))


def train(steps=20, compiled=False):
    torch.manual_seed(0)
    data = make_waves(count=8, length=12, period=4)
    input, target = data[3:, :-1], data[3:, 1:]
    test_input, test_target = data[:3, :-1], data[:3, 1:]
    seq = Sequence()
    seq.double()
    criterion = nn.MSELoss()
    optimizer = torch.optim.LBFGS(seq.parameters(), lr=0.8, max_iter=4, line_search_fn=None)
    network = torch.compile(seq) if compiled else seq
    losses = []

    def closure():
        optimizer.zero_grad()
        out = network(input)
        loss = criterion(out, target)
        losses.append(loss.item())
        loss.backward()
        return loss

    while len(losses) < steps:
        optimizer.step(closure)
    with torch.no_grad():
        pred = seq(test_input, future=3)
        print("test loss:", criterion(pred[:, :-3], test_target).item())
    return losses[:steps]


if __name__ == "__main__":
    print(train(steps=100)[::10])
