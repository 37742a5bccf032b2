"""A graph convolutional network (Kipf and Welling, 2017) that tells the two factions of Zachary's karate club."""

import math

import rushlight as torch

nn, F = torch.nn, torch.nn.functional

FRIENDS = {
    0: (1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 17, 19, 21, 31),
    1: (2, 3, 7, 13, 17, 19, 21, 30),
    2: (3, 7, 8, 9, 13, 27, 28, 32),
    3: (7, 12, 13),
    4: (6, 10),
    5: (6, 10, 16),
    6: (16,),
    8: (30, 32, 33),
    9: (33,),
    13: (33,),
    14: (32, 33),
    15: (32, 33),
    18: (32, 33),
    19: (33,),
    20: (32, 33),
    22: (32, 33),
    23: (25, 27, 29, 32, 33),
    24: (25, 27, 31),
    25: (31,),
    26: (29, 33),
    27: (33,),
    28: (31, 33),
    29: (32, 33),
    30: (32, 33),
    31: (32, 33),
    32: (33,),
}
OFFICERS = {9, 14, 15, 18, 20, *range(22, 34)}


class GraphConvolution(nn.Module):
    def __init__(self, in_features, out_features, bias=True):
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = nn.Parameter(torch.empty(in_features, out_features))
        if bias:
            self.bias = nn.Parameter(torch.empty(out_features))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self):
        stdv = 1.0 / math.sqrt(self.weight.size(1))
        self.weight.data.uniform_(-stdv, stdv)
        if self.bias is not None:
            self.bias.data.uniform_(-stdv, stdv)

    def forward(self, input, adj):
        support = torch.mm(input, self.weight)
        output = torch.sparse.mm(adj, support)
        return output if self.bias is None else output + self.bias

    def __repr__(self):
        return f"{self.__class__.__name__} ({self.in_features} -> {self.out_features})"


class GCN(nn.Module):
    def __init__(self, nfeat, nhid, nclass, dropout, adj):
        super().__init__()
        self.gc1 = GraphConvolution(nfeat, nhid)
        self.gc2 = GraphConvolution(nhid, nclass)
        self.dropout = dropout
        self.adj = adj

    def forward(self, x):
        x = F.relu(self.gc1(x, self.adj))
        x = F.dropout(x, self.dropout, training=self.training)
        x = self.gc2(x, self.adj)
        return F.log_softmax(x, dim=1)


def load_data():
    pairs = [(person, other) for person, others in FRIENDS.items() for other in others]
    source, target = torch.tensor(pairs).t()
    count = 34
    loops = torch.arange(count)
    edges = torch.stack([torch.cat([source, target, loops]), torch.cat([target, source, loops])])
    degree = torch.zeros(count).scatter_add_(0, edges[0], torch.ones(edges.size(1)))
    values = degree[edges[0]].rsqrt() * degree[edges[1]].rsqrt()
    adj = torch.sparse_coo_tensor(edges, values, (count, count)).coalesce()
    labels = torch.tensor([int(person in OFFICERS) for person in range(count)])
    return adj, torch.eye(count), labels


def train(steps=20, compiled=False):
    torch.manual_seed(42)
    adj, features, labels = load_data()
    idx_train = torch.tensor([0, 1, 5, 32, 33, 26])
    model = GCN(features.shape[1], 16, 2, 0.5, adj)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    network = torch.compile(model) if compiled else model
    losses = []
    for _ in range(steps):
        model.train()
        optimizer.zero_grad()
        output = network(features)
        loss_train = F.nll_loss(output[idx_train], labels[idx_train])
        loss_train.backward()
        optimizer.step()
        losses.append(loss_train.item())
    return losses


if __name__ == "__main__":
    print(train(steps=200)[::20])
