"""A character-level language model: an LSTM that carries its state from one piece of text to the next."""

import rushlight as torch

nn = torch.nn

TEXT = """Shall I compare thee to a summer's day?
Thou art more lovely and more temperate:
Rough winds do shake the darling buds of May,
And summer's lease hath all too short a date;
Sometime too hot the eye of heaven shines,
And often is his gold complexion dimm'd;
And every fair from fair sometime declines,
By chance or nature's changing course untrimm'd;
"""


class CharRNN(nn.Module):
    def __init__(self, tokens, n_hidden=32, n_layers=2, drop_prob=0.2):
        super().__init__()
        self.n_layers, self.n_hidden = n_layers, n_hidden
        self.encoder = nn.Embedding(tokens, n_hidden)
        self.lstm = nn.LSTM(n_hidden, n_hidden, n_layers, batch_first=True)
        self.dropout = nn.Dropout(drop_prob)
        self.fc = nn.Linear(n_hidden, tokens)

    def forward(self, x, hidden):
        r_output, hidden = self.lstm(self.encoder(x), hidden)
        out = self.dropout(r_output).contiguous().view(-1, self.n_hidden)
        return self.fc(out), hidden

    def init_hidden(self, batch_size):
        weight = next(self.parameters()).data
        return (
            weight.new(self.n_layers, batch_size, self.n_hidden).zero_(),
            weight.new(self.n_layers, batch_size, self.n_hidden).zero_(),
        )


def get_batches(data, n_seqs, n_steps):
    batch_size = n_seqs * n_steps
    n_batches = (len(data) - 1) // batch_size
    x = data[: n_batches * batch_size].reshape(n_seqs, -1)
    y = data[1 : n_batches * batch_size + 1].reshape(n_seqs, -1)
    for n in range(0, x.shape[1], n_steps):
        yield x[:, n : n + n_steps], y[:, n : n + n_steps]


def train(steps=20, compiled=False, n_seqs=4, n_steps=12, clip=5):
    torch.manual_seed(1)
    chars = sorted(set(TEXT))
    char2int = {ch: ii for ii, ch in enumerate(chars)}
    data = torch.tensor([char2int[ch] for ch in TEXT], dtype=torch.long)
    net = CharRNN(len(chars))
    opt = torch.optim.Adam(net.parameters(), lr=0.01)
    criterion = nn.CrossEntropyLoss()
    model = torch.compile(net) if compiled else net
    losses = []
    net.train()
    while True:
        h = net.init_hidden(n_seqs)
        for x, y in get_batches(data, n_seqs, n_steps):
            h = tuple([each.data for each in h])
            net.zero_grad()
            output, h = model(x, h)
            loss = criterion(output, y.reshape(n_seqs * n_steps))
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), clip)
            opt.step()
            losses.append(loss.item())
            if len(losses) == steps:
                return losses


if __name__ == "__main__":
    print(train(steps=200)[::20])
