"""The benchmark of filling gaps first compares what is comparable."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # the benchmarks are not installed

from benchmarks import t5  # noqa: E402
from benchmarks.rewards import Result  # noqa: E402

from seqloom.config import load_config  # noqa: E402

PLAN = t5.Plan(["a.txt"], Path("pairs"), 64, 2, 500, 6.0, 2.0, 1e-3, 4096, 128)


def test_both_trainings_have_the_same_model_and_the_second_the_same_tokeniser() -> None:
    filling = load_config(t5._filling(PLAN, seed=3))
    learning = load_config(t5._from_nothing(PLAN, 3, Path("gaps"), 0.0))
    stack = learning.model.encoder.model_copy(update={"dropout": filling.model.encoder.dropout})
    assert filling.model.encoder == stack
    assert filling.model.embedding == learning.model.embedding
    assert learning.text.path == "gaps"
    assert [task.name for task in filling.data.tasks] == ["texts", "sources"]
    assert filling.data.tasks[1].field == "source"
    assert (filling.seed, filling.training.minutes, learning.training.minutes) == (3, 6.0, 2.0)


def test_the_table_puts_the_differences_beside_what_was_tuned() -> None:
    references = [["a cat sat"], ["two dogs run far"]]
    bad, good = ["x", "y"], ["a cat sat", "two dogs run"]
    found = {
        (way, seed): Result({"beam": 50.0 + seed}, {"beam": good if way == t5.TUNED else bad})
        for way in (t5.AS_LONG, t5.LONGER, t5.TUNED)
        for seed in (0, 1)
    }
    table = t5._table(PLAN, found, [0, 1], references)
    assert [row[0] for row in table.rows] == [t5.AS_LONG, t5.LONGER, t5.TUNED]
    assert [row[1] for row in table.rows] == ["50.50 ± 0.71"] * 3
    assert table.rows[0][2:] == ["", ""]
    assert all(cell.startswith("+") for cell in table.rows[2][2:])
