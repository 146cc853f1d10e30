"""How fast seqloom is, measured against plain PyTorch and against the machine: `python -m benchmarks`."""
