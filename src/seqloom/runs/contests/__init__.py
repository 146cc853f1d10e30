"""What runs of a family are compared by: the same terms for all, and what is measured of each."""

from seqloom.runs.contests.contest import Contest, Entrant
from seqloom.runs.contests.images import ImageContest
from seqloom.runs.contests.pairs import PairContest
from seqloom.runs.contests.text import TextContest

__all__ = ["Contest", "Entrant", "ImageContest", "PairContest", "TextContest"]
