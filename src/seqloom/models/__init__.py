"""Assembled models: each gives sequences a probability and draws new ones."""
