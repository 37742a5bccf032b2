"""Recommendations by factors of users and films, with biases (Koren et al., 2009), on ratings that are made up."""

import rushlight as torch

nn = torch.nn


class MatrixFactorization(nn.Module):
    def __init__(self, n_users, n_items, n_factors=8):
        super().__init__()
        self.user_factors = nn.Embedding(n_users, n_factors, sparse=True)
        self.item_factors = nn.Embedding(n_items, n_factors, sparse=True)
        self.user_biases = nn.Embedding(n_users, 1, sparse=True)
        self.item_biases = nn.Embedding(n_items, 1, sparse=True)
        for embedding in (self.user_factors, self.item_factors):
            nn.init.normal_(embedding.weight, std=0.1)

    def forward(self, user, item):
        pred = self.user_biases(user) + self.item_biases(item)
        pred += (self.user_factors(user) * self.item_factors(item)).sum(dim=1, keepdim=True)
        return pred.squeeze()


def make_ratings(n_users, n_items, count):
    users, items = torch.randint(0, n_users, (count,)), torch.randint(0, n_items, (count,))
    tastes, kinds = torch.randn(n_users, 3), torch.randn(n_items, 3)
    scores = (tastes[users] * kinds[items]).sum(dim=1) + 0.1 * torch.randn(count)
    return torch.utils.data.TensorDataset(users, items, scores.clamp(-2, 2).round() + 3)


def train(steps=20, compiled=False, n_users=40, n_items=30):
    torch.manual_seed(0)
    ratings = make_ratings(n_users, n_items, 900)
    loader = torch.utils.data.DataLoader(ratings, batch_size=64, shuffle=True)
    model = MatrixFactorization(n_users, n_items)
    loss_func = nn.MSELoss()
    optimizer = torch.optim.SparseAdam(model.parameters(), lr=0.05)
    network = torch.compile(model) if compiled else model
    losses = []
    while True:
        for user, item, rating in loader:
            optimizer.zero_grad()
            loss = loss_func(network(user, item), rating)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if len(losses) == steps:
                return losses


if __name__ == "__main__":
    print(train(steps=400)[::40])
