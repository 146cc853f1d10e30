"""Raw text to ids and back: reading, tokenisers, vocabulary, statistics."""
