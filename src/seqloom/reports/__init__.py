"""From numbers to pictures: plots, tables and pages that anyone can open."""

from seqloom.reports.ladder import CurvePoint, Ladder, RungResult
from seqloom.reports.ladder_report import write_ladder_report
from seqloom.reports.ladder_table import ladder_json, ladder_table
from seqloom.reports.plots import gradient_flow, learning_curves, quality_against_cost, training_curve, zipf
from seqloom.reports.run_report import write_run_report
from seqloom.reports.style import save, svg

__all__ = [
    "CurvePoint",
    "Ladder",
    "RungResult",
    "gradient_flow",
    "ladder_json",
    "ladder_table",
    "learning_curves",
    "quality_against_cost",
    "save",
    "svg",
    "training_curve",
    "write_ladder_report",
    "write_run_report",
    "zipf",
]
