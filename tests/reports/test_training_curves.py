"""What was logged while training, as the report of a run shows it."""

from __future__ import annotations

import math

import pytest

from seqloom.reports.curves import CURVES
from seqloom.reports.energy import energy_training_section
from seqloom.reports.style import svg


def test_the_training_curve_has_a_panel_for_all_that_was_logged(entries: list[dict[str, float]]):
    titles = [axes.get_title(loc="left") for axes in CURVES["usual"].figure(entries).axes]
    assert titles == ["Loss, nats per token", "Learning rate", "Gradient norm", "Tokens per second"]
    of_images = [{**entry, "unit": "images"} for entry in entries]
    titles = [axes.get_title(loc="left") for axes in CURVES["usual"].figure(of_images).axes]
    assert titles == ["Loss, nats per image", "Learning rate", "Gradient norm", "Images per second"]


def test_the_training_curve_has_a_panel_for_scheduled_sampling_and_one_for_bleu(entries: list[dict[str, float]]):
    sampled = [{**entry, "teacher": 1 - entry["step"] / 4000} for entry in entries]
    translated = [{**entry, "valid_bleu": 30.0} if "valid_loss" in entry else entry for entry in sampled]
    panels = {axes.get_title(loc="left"): axes for axes in CURVES["usual"].figure(translated).axes}
    assert list(panels)[4:] == ["Teacher forcing probability", "Validation BLEU"]
    teacher, bleu = (panels[name].get_lines()[0] for name in list(panels)[4:])
    assert list(teacher.get_ydata()) == [entry["teacher"] for entry in sampled]
    assert list(bleu.get_xdata()) == [entry["step"] for entry in entries if "valid_loss" in entry]
    low, high = panels["Teacher forcing probability"].get_ylim()
    assert low < 0 < 1 < high


@pytest.mark.parametrize(
    "entries",
    [[], [{"step": 1}], [{"step": 1, "loss": math.nan}]],
    ids=["nothing", "no numbers", "not finite"],
)
def test_a_run_that_logged_nothing_finite_says_so(entries: list[dict[str, float]]):
    assert "nothing was logged yet" in svg(CURVES["usual"].figure(entries))


@pytest.mark.parametrize("entry", [{"step": 5, "loss": 3.0}, {"step": 5, "valid_loss": 3.0, "learning_rate": 0.1}])
def test_one_log_entry_is_enough_for_a_plot(entry: dict[str, float]):
    assert "3.00" in svg(CURVES["usual"].figure([entry]))


def test_lines_of_one_panel_are_named_and_those_of_probabilities_have_room_from_0_to_1():
    logged = [{"step": step, "loss": 1.4, "real_score": 0.6, "made_score": 0.4} for step in (1, 2)]
    large, scores = CURVES["players"].figure(logged).axes
    assert large.get_title(loc="left") == "Loss, nats"
    assert [text.get_text() for text in scores.get_legend().get_texts()] == ["of real images", "of drawn images"]
    assert scores.get_ylim()[0] < 0 < 1 < scores.get_ylim()[1]


def test_a_machine_shows_its_log_likelihood_not_the_loss_that_was_logged():
    logged = [{"step": 1, "loss": 9.0}, {"step": 2, "loss": 8.0, "valid_loss": 81.5, "valid_reconstruction": 7.0}]
    section = energy_training_section(logged, "Training: layer-1")
    assert "<h2>Training: layer-1</h2>" in section
    assert "log-likelihood -81.5" in section
    assert section.count("held-out images</text>") == 1
