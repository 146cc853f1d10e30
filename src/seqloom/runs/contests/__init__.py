"""What runs of a family are compared by: the same terms for all, and what is measured of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seqloom.lazy import importing

if TYPE_CHECKING:
    from seqloom.runs.contests.contest import Contest, Entrant
    from seqloom.runs.contests.images import ImageContest
    from seqloom.runs.contests.pairs import PairContest
    from seqloom.runs.contests.text import TextContest

__all__ = ["Contest", "Entrant", "ImageContest", "PairContest", "TextContest"]

__getattr__ = importing(  # each on first use: an n-gram model is of the contest of text alone
    __name__,
    {
        **dict.fromkeys(("Contest", "Entrant"), "seqloom.runs.contests.contest"),
        "ImageContest": "seqloom.runs.contests.images",
        "PairContest": "seqloom.runs.contests.pairs",
        "TextContest": "seqloom.runs.contests.text",
    },
)
