"""What a trained run is asked for in Python: log-probabilities, samples by a seed, and other answers."""

from __future__ import annotations

from typing import Any

import numpy as np

TEXTS = ["the cat sat on the log", "a dog", ""]
SOURCES = ["the cat sat on the log", "name7 a dog", "x"]
SHADES = {"black": 0, "grey": 120, "white": 240}
DESCRIPTIONS = ["white left of black", "grey left of grey"]
DESCRIBED = np.random.default_rng(0).integers(0, 256, (2, 8, 8), np.uint8)
FEATURES = np.random.default_rng(0).normal(size=(2, 4, 5))


def log_probs_of_texts(trained: Any) -> Any:
    return dict(zip(TEXTS, trained.log_prob(TEXTS), strict=True))


def scores_of_texts(trained: Any) -> Any:
    return trained.score(TEXTS)


def texts(trained: Any, seed: int) -> Any:
    return trained.generate(["the cat", ""], strategy="sample", n_best=2, max_length=9, seed=seed)


def likeliest_texts(trained: Any) -> Any:
    return trained.generate(["the cat"], strategy="greedy"), trained.generate(["a"], strategy="beam", n_best=2)


def answers_after_examples(trained: Any) -> Any:
    shots = [("the cat", "sat"), ("a dog", "fell")]
    return trained.generate(["the cat", ""], shots=shots, template="{input} {output} on", max_length=9)


def log_probs_of_pairs(trained: Any) -> Any:
    return dict(zip(SOURCES, trained.log_prob(SOURCES, SOURCES), strict=True))


def scores_of_pairs(trained: Any) -> Any:
    return trained.score(SOURCES, SOURCES)


def translations(trained: Any, seed: int) -> Any:
    return trained.generate(SOURCES, strategy="sample", n_best=2, seed=seed)


def likeliest_translations(trained: Any) -> Any:
    return trained.generate(SOURCES, n_best=2)


def described(trained: Any) -> Any:
    return DESCRIBED if trained.config.data.features is None else FEATURES


def log_probs_of_captions(trained: Any) -> Any:
    return dict(zip(DESCRIPTIONS, trained.log_prob(described(trained), DESCRIPTIONS), strict=True))


def captions(trained: Any, seed: int) -> Any:
    return trained.generate(described(trained), strategy="sample", n_best=2, max_length=9, seed=seed)


def likeliest_captions(trained: Any) -> Any:
    return trained.generate(described(trained), n_best=2)


def log_probs_of_described_images(trained: Any) -> Any:
    held_out = trained.captioned()
    return dict(zip(range(len(held_out)), trained.log_prob(held_out), strict=True))


def drawings(trained: Any, seed: int) -> Any:
    return trained.draw(DESCRIPTIONS, seed=seed, n=2)


def log_probs_of_images(trained: Any) -> Any:
    return dict(zip(range(4), trained.log_prob(trained.held_out().first(4)), strict=True))


def images(trained: Any, seed: int) -> Any:
    return trained.sample(4, seed=seed)


def completions_of_images(trained: Any) -> Any:
    found = trained.complete(trained.held_out().first(4), "left", sweeps=20)
    return found.chances, found.most_probable, found.figures


def lowest_states(trained: Any) -> Any:
    found = trained.lowest(chains=4, sweeps=20)
    return found.states, found.energies


def codes_of_images(trained: Any) -> Any:
    return trained.transform(trained.held_out().first(4))


def classes_of_images(trained: Any) -> Any:
    return trained.log_probs(trained.held_out().first(4))


def features_of_images(trained: Any) -> Any:
    return trained.features(trained.held_out().first(4))


def tags(trained: Any) -> Any:
    return trained.tag(TEXTS)


def labels(trained: Any) -> Any:
    return trained.classify(TEXTS)


def contextual_vectors(trained: Any) -> Any:
    return trained.embed(TEXTS)


def fillings(trained: Any) -> Any:
    return trained.fill(["the [MASK] sat on the log", "[MASK] [MASK]"], top=3)


def neighbours(trained: Any) -> Any:
    return trained.neighbours("cat", 3), trained.similarity("cat", "dog")


def figures(trained: Any) -> Any:
    return trained.figures()
