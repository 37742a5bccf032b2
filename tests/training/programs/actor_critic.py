"""Advantage actor-critic with a few environments at once: balance a pole on a cart."""

import math

import numpy as np

import rushlight as torch

nn, F = torch.nn, torch.nn.functional


class CartPole:
    """The classic task (Barto, Sutton and Anderson, 1983), of `n` carts that start anew when their poles fall."""

    def __init__(self, n, seed=0):
        self.rng = np.random.default_rng(seed)
        self.state = self.rng.uniform(-0.05, 0.05, (n, 4))

    def step(self, action):
        _, x_dot, theta, theta_dot = self.state.T
        force = np.where(action == 1, 10.0, -10.0)
        temp = (force + 0.05 * theta_dot**2 * np.sin(theta)) / 1.1
        theta_acc = (9.8 * np.sin(theta) - np.cos(theta) * temp) / (0.5 * (4 / 3 - 0.1 * np.cos(theta) ** 2 / 1.1))
        x_acc = temp - 0.05 * theta_acc * np.cos(theta) / 1.1
        change = np.stack([x_dot, x_acc, theta_dot, theta_acc], axis=1)
        self.state = self.state + 0.02 * change
        done = (abs(self.state[:, 0]) > 2.4) | (abs(self.state[:, 2]) > 12 * math.pi / 180)
        self.state[done] = self.rng.uniform(-0.05, 0.05, (done.sum(), 4))
        return self.state, np.ones(len(done)), done


class ActorCritic(nn.Module):
    def __init__(self, num_inputs=4, num_actions=2, hidden_size=32):
        super().__init__()
        self.critic = nn.Sequential(nn.Linear(num_inputs, hidden_size), nn.Tanh(), nn.Linear(hidden_size, 1))
        self.actor = nn.Sequential(nn.Linear(num_inputs, hidden_size), nn.Tanh(), nn.Linear(hidden_size, num_actions))
        for layer in (self.actor[0], self.critic[0]):
            nn.init.orthogonal_(layer.weight, math.sqrt(2))
            nn.init.zeros_(layer.bias)

    def forward(self, x):
        return torch.distributions.Categorical(logits=self.actor(x)), self.critic(x).squeeze(-1)


def compute_returns(next_value, rewards, masks, gamma=0.99):
    R = next_value
    returns = []
    for step in reversed(range(len(rewards))):
        R = rewards[step] + gamma * R * masks[step]
        returns.insert(0, R)
    return torch.stack(returns)


def train(steps=20, compiled=False, num_envs=8, num_steps=5):
    torch.manual_seed(543)
    torch.set_default_dtype(torch.float64)
    envs = CartPole(num_envs)
    model = ActorCritic()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=7e-3, alpha=0.99, eps=1e-5)

    def update(states, actions, returns):
        dist, values = model(states)
        advantage = returns - values
        actor_loss = -(dist.log_prob(actions) * advantage.detach()).mean()
        critic_loss = advantage.pow(2).mean()
        loss = actor_loss + 0.5 * critic_loss - 0.01 * dist.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        return loss

    @torch.no_grad()
    def act(state):
        dist, _ = model(state)
        return dist.sample()

    if compiled:
        update, act = torch.compile(update), torch.compile(act)
    losses = []
    state = torch.from_numpy(envs.state)
    for _ in range(steps):
        states, actions, rewards, masks = [], [], [], []
        for _ in range(num_steps):
            action = act(state)
            next_state, reward, done = envs.step(action.numpy())
            states.append(state)
            actions.append(action)
            rewards.append(torch.from_numpy(reward))
            masks.append(torch.from_numpy(1.0 - done))
            state = torch.from_numpy(next_state)
        with torch.no_grad():
            _, next_value = model(state)
        returns = compute_returns(next_value, rewards, masks)
        losses.append(update(torch.stack(states), torch.stack(actions), returns).item())
    return losses


if __name__ == "__main__":
    print(train(steps=200)[::20])
