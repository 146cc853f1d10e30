"""From numbers to pictures: plots, tables and pages that anyone can open."""

from seqloom.reports.ladder import CurvePoint, Ladder, RungResult
from seqloom.reports.ladder_report import write_ladder_report
from seqloom.reports.ladder_table import ladder_json, ladder_table
from seqloom.reports.ngrams import (
    OrderCoverage,
    ngram_coverage,
    ngram_orders,
    ngram_picture,
    ngram_section,
    ngram_tables,
    ngram_zipf,
)
from seqloom.reports.plots import gradient_flow, learning_curves, quality_against_cost, training_curve, zipf
from seqloom.reports.run_report import mixture_section, training_section, write_run_report
from seqloom.reports.style import save, svg

__all__ = [
    "CurvePoint",
    "Ladder",
    "OrderCoverage",
    "RungResult",
    "gradient_flow",
    "ladder_json",
    "ladder_table",
    "learning_curves",
    "mixture_section",
    "ngram_coverage",
    "ngram_orders",
    "ngram_picture",
    "ngram_section",
    "ngram_tables",
    "ngram_zipf",
    "quality_against_cost",
    "save",
    "svg",
    "training_curve",
    "training_section",
    "write_ladder_report",
    "write_run_report",
    "zipf",
]
