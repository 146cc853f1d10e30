"""N-gram models: counting, smoothing, and one sorted tree to ask."""
