"""A word-level language model: a transformer encoder with a causal mask."""

import math

import rushlight as torch

nn = torch.nn

TEXT = """the cat sat on the mat and the dog sat on the log then the cat saw the dog and the dog saw the cat
so the cat ran to the tree and the dog ran to the cat but the cat was in the tree and the dog was on the grass
and the sun was on the tree and the grass was green and the cat was glad and the dog was sad then the sun was low
and the dog ran to the house and the cat sat in the tree and saw the moon over the house and the grass
"""


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, dropout=0.1, max_len=64):
        super().__init__()
        self.dropout = nn.Dropout(p=dropout)
        position = torch.arange(max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(max_len, 1, d_model)
        pe[:, 0, 0::2] = torch.sin(position * div_term)
        pe[:, 0, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe)

    def forward(self, x):
        x = x + self.pe[: x.size(0)]
        return self.dropout(x)


class TransformerModel(nn.Module):
    def __init__(self, ntoken, d_model=16, nhead=2, d_hid=32, nlayers=2, dropout=0.2):
        super().__init__()
        self.pos_encoder = PositionalEncoding(d_model, dropout)
        encoder_layers = nn.TransformerEncoderLayer(d_model, nhead, d_hid, dropout)
        self.transformer_encoder = nn.TransformerEncoder(encoder_layers, nlayers)
        self.embedding = nn.Embedding(ntoken, d_model)
        self.d_model = d_model
        self.linear = nn.Linear(d_model, ntoken)
        self.init_weights()

    def init_weights(self):
        initrange = 0.1
        self.embedding.weight.data.uniform_(-initrange, initrange)
        self.linear.bias.data.zero_()
        self.linear.weight.data.uniform_(-initrange, initrange)

    def forward(self, src, src_mask=None):
        src = self.embedding(src) * math.sqrt(self.d_model)
        src = self.pos_encoder(src)
        if src_mask is None:
            src_mask = nn.Transformer.generate_square_subsequent_mask(len(src))
        output = self.transformer_encoder(src, src_mask)
        return self.linear(output)


def batchify(data, bsz):
    seq_len = data.size(0) // bsz
    return data[: seq_len * bsz].view(bsz, seq_len).t().contiguous()


def get_batch(source, i, bptt):
    seq_len = min(bptt, len(source) - 1 - i)
    return source[i : i + seq_len], source[i + 1 : i + 1 + seq_len].reshape(-1)


def train(steps=20, compiled=False, bptt=8):
    torch.manual_seed(1111)
    words = TEXT.split()
    vocab = {word: at for at, word in enumerate(sorted(set(words)))}
    data = batchify(torch.tensor([vocab[word] for word in words], dtype=torch.long), 4)
    model = TransformerModel(len(vocab))
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.95)
    network = torch.compile(model) if compiled else model
    losses = []
    while True:
        model.train()
        for i in range(0, data.size(0) - 1 - bptt, bptt):
            inputs, targets = get_batch(data, i, bptt)
            output = network(inputs)
            loss = criterion(output.view(-1, len(vocab)), targets)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            losses.append(loss.item())
            if len(losses) == steps:
                return losses
        scheduler.step()


if __name__ == "__main__":
    print(train(steps=200)[::20])
