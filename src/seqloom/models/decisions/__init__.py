"""Markov decision processes: states, actions, rewards, and the best way to act."""
