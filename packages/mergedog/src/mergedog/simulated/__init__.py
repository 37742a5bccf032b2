"""A forge, a repository and an agent in memory: for the demo, for tests, and to try a policy."""
