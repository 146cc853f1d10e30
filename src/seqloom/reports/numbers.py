"""Numbers as people read them."""

from __future__ import annotations

import math
from collections.abc import Sequence

MISSING = "–"
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def significant(value: float, digits: int = 3) -> str:
    """A number with so many significant digits, or all that stand before its point: 0.0123, 1.23, 12,346; ∞, –."""
    if not math.isfinite(value):
        return _not_finite(value)
    if value == 0:
        return "0"
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    if decimals > 6:
        return f"{value:.{digits - 1}e}"
    return f"{value:,.{max(0, decimals)}f}"


def rounded(value: float) -> float:
    """A number of which two digits count: batches of several sizes end at several tokens."""
    return float(f"{value:.2g}")


def aligned(values: Sequence[float], digits: int = 3, most_decimals: int = 2) -> list[str]:
    """The numbers of one column: all with as many decimals as the smallest needs, so that their points line up."""
    decimals = shared_decimals(values, digits, most_decimals)
    return [f"{value:,.{decimals}f}" if math.isfinite(value) else _not_finite(value) for value in values]


def shared_decimals(values: Sequence[float], digits: int = 3, most: int = 2) -> int:
    """As many decimals as the smallest of the numbers needs."""
    sizes = [abs(value) for value in values if math.isfinite(value) and value]
    decimals = digits - 1 - math.floor(math.log10(min(sizes))) if sizes else 0
    return max(0, min(most, decimals))


def spread(deviation: float, decimals: int) -> str:
    """A deviation with as many decimals as the number that it belongs to, or as one digit of it needs."""
    text = f"{deviation:,.{decimals}f}"
    return text if text.strip("0.") or not deviation else significant(float(f"{deviation:.0e}"), 1)


def compact(value: float, digits: int = 3) -> str:
    """A short form for ticks and labels, with so many significant digits at most: 0.5, 950, 1.2k, 34M, 10⁻⁸."""
    if not math.isfinite(value):
        return _not_finite(value)
    size = abs(value)
    if size and (size < 1e-4 or size >= 1e12):
        exponent = math.floor(math.log10(size) + 1e-9)
        factor = f"{value / 10.0**exponent:.{digits}g}"
        power = "10" + str(exponent).translate(SUPERSCRIPTS)
        return power if factor == "1" else f"{factor}·{power}"
    for step, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if size >= step * (1 - 0.5 / 10**digits):
            return f"{value / step:.{digits}g}{letter}"
    return f"{value:.{digits}g}"


def duration(seconds: float) -> str:
    """A time span in the units people use, with spaces that do not break: 0.42 s, 3 min 12 s, 2 h 5 min."""
    if not math.isfinite(seconds):
        return _not_finite(seconds)
    if seconds < 59.5:
        return f"{significant(seconds, 2)}\N{NO-BREAK SPACE}s"
    whole = round(seconds)
    hours, minutes = divmod(whole // 60 if whole < 3600 else round(seconds / 60), 60)
    parts = f"{hours} h {minutes} min" if hours else f"{minutes} min {whole % 60} s"
    return parts.replace(" ", "\N{NO-BREAK SPACE}")


def figure_name(key: str) -> str:
    """What people call a figure: `bits_per_character` is bits per character, `frechet_distance` Fréchet distance."""
    return key.replace("_", " ").replace("frechet", "Fréchet")


def _not_finite(value: float) -> str:
    if math.isnan(value):
        return MISSING
    return "∞" if value > 0 else "−∞"
