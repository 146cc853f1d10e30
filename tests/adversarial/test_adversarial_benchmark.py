"""The benchmark of adversarial theory runs, and draws its pictures."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT))  # the benchmarks are not installed

from benchmarks.adversarial import modes_figure, outcomes, theory_figure  # noqa: E402
from benchmarks.adversarial_theory import mixture, train_discriminator  # noqa: E402


def test_outcomes_and_figures():
    found = outcomes(steps=2, seeds=1)
    assert [len(each.centres) for each in found] == [25, 25, 8, 8]
    assert all(len(each.drawn[0]) == each.coverage[0].points for each in found)
    assert len(modes_figure(found).axes) == 4
    learned = train_discriminator(mixture([0.0]), mixture([1.0]), steps=2)
    assert len(theory_figure(learned).axes) == 3
