"""`python -m seqloom`, for torchrun."""

from seqloom.cli import main

main()
