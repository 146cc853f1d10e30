"""From ids to batches: corpora, token stores on disk, windows, images."""
