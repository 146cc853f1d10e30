"""Trained runs behind HTTP: one engine for each, which writes what many ask for together."""
