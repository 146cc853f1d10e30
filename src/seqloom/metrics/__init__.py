"""From sequences to numbers."""
