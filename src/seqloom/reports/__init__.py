"""From numbers to pictures: plots, tables and pages that anyone can open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seqloom.lazy import importing

if TYPE_CHECKING:
    from seqloom.reports.adversarial import growth_section, players_section, samples_section
    from seqloom.reports.attention import AttentionMap, write_attention
    from seqloom.reports.captions import ImageAttention, captions_section, write_image_attention
    from seqloom.reports.labelling import labelling_section
    from seqloom.reports.ladder import CurvePoint, Ladder, RungResult
    from seqloom.reports.ladder_numbers import ladder_json, ladder_table
    from seqloom.reports.ladder_report import write_ladder_report
    from seqloom.reports.ngrams import (
        OrderCoverage,
        ngram_coverage,
        ngram_orders,
        ngram_picture,
        ngram_section,
        ngram_tables,
        ngram_zipf,
    )
    from seqloom.reports.pair_ladder import PairLadder, PairRung
    from seqloom.reports.pair_ladder_numbers import pair_ladder_json, pair_ladder_table
    from seqloom.reports.pair_ladder_report import write_pair_ladder_report
    from seqloom.reports.plots import gradient_flow, learning_curves, normaliser_histogram, training_curve, zipf
    from seqloom.reports.run_report import mixture_section, outputs_section, training_section, write_run_report
    from seqloom.reports.style import save, svg
    from seqloom.reports.tradeoff import bleu_against_cost, quality_against_cost
    from seqloom.reports.word_map import neighbours_section, word_map_section, words_picture

_HOMES = {  # imported on first use: matplotlib takes most of a second, and tables and heat maps do without it
    "AttentionMap": "seqloom.reports.attention",
    "ImageAttention": "seqloom.reports.captions",
    "CurvePoint": "seqloom.reports.ladder",
    "Ladder": "seqloom.reports.ladder",
    "OrderCoverage": "seqloom.reports.ngrams",
    "PairLadder": "seqloom.reports.pair_ladder",
    "PairRung": "seqloom.reports.pair_ladder",
    "RungResult": "seqloom.reports.ladder",
    "bleu_against_cost": "seqloom.reports.tradeoff",
    "captions_section": "seqloom.reports.captions",
    "gradient_flow": "seqloom.reports.plots",
    "normaliser_histogram": "seqloom.reports.plots",
    "growth_section": "seqloom.reports.adversarial",
    "labelling_section": "seqloom.reports.labelling",
    "ladder_json": "seqloom.reports.ladder_numbers",
    "ladder_table": "seqloom.reports.ladder_numbers",
    "learning_curves": "seqloom.reports.plots",
    "mixture_section": "seqloom.reports.run_report",
    "ngram_coverage": "seqloom.reports.ngrams",
    "ngram_orders": "seqloom.reports.ngrams",
    "ngram_picture": "seqloom.reports.ngrams",
    "ngram_section": "seqloom.reports.ngrams",
    "ngram_tables": "seqloom.reports.ngrams",
    "ngram_zipf": "seqloom.reports.ngrams",
    "neighbours_section": "seqloom.reports.word_map",
    "outputs_section": "seqloom.reports.run_report",
    "pair_ladder_json": "seqloom.reports.pair_ladder_numbers",
    "pair_ladder_table": "seqloom.reports.pair_ladder_numbers",
    "players_section": "seqloom.reports.adversarial",
    "quality_against_cost": "seqloom.reports.tradeoff",
    "samples_section": "seqloom.reports.adversarial",
    "save": "seqloom.reports.style",
    "svg": "seqloom.reports.style",
    "training_curve": "seqloom.reports.plots",
    "training_section": "seqloom.reports.run_report",
    "word_map_section": "seqloom.reports.word_map",
    "words_picture": "seqloom.reports.word_map",
    "write_attention": "seqloom.reports.attention",
    "write_image_attention": "seqloom.reports.captions",
    "write_ladder_report": "seqloom.reports.ladder_report",
    "write_pair_ladder_report": "seqloom.reports.pair_ladder_report",
    "write_run_report": "seqloom.reports.run_report",
    "zipf": "seqloom.reports.plots",
}
__all__ = [
    "AttentionMap",
    "CurvePoint",
    "ImageAttention",
    "Ladder",
    "OrderCoverage",
    "PairLadder",
    "PairRung",
    "RungResult",
    "bleu_against_cost",
    "captions_section",
    "gradient_flow",
    "growth_section",
    "labelling_section",
    "ladder_json",
    "ladder_table",
    "learning_curves",
    "mixture_section",
    "neighbours_section",
    "ngram_coverage",
    "ngram_orders",
    "ngram_picture",
    "ngram_section",
    "ngram_tables",
    "ngram_zipf",
    "normaliser_histogram",
    "outputs_section",
    "pair_ladder_json",
    "pair_ladder_table",
    "players_section",
    "quality_against_cost",
    "samples_section",
    "save",
    "svg",
    "training_curve",
    "training_section",
    "word_map_section",
    "words_picture",
    "write_attention",
    "write_image_attention",
    "write_ladder_report",
    "write_pair_ladder_report",
    "write_run_report",
    "zipf",
]


__getattr__ = importing(__name__, _HOMES)
