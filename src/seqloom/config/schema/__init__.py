"""The whole configuration of a run, typed. Every field is documented where it stands; unknown keys are rejected.

The schema knows nothing of torch, so that a mistake in a file is reported at once.
"""
