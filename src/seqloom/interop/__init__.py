"""To and from other programs: ARPA files of n-gram models."""

from seqloom.interop.arpa import read_arpa, write_arpa
from seqloom.interop.runs import export_arpa, import_arpa

__all__ = ["export_arpa", "import_arpa", "read_arpa", "write_arpa"]
