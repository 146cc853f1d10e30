"""Models by their energy: p(x) = exp(-E(x)) / Z."""
