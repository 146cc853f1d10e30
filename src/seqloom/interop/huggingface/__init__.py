"""Hugging Face's format: a folder with config.json, tokenizer.json and model.safetensors.

`folder.py` reads such a folder safely; `architecture.py` says what an architecture is (a table of its configuration and
one of its weights, each read both ways), and a file for each has its tables; `tokenizers.py` is about tokenisers, and
`runs.py` ties all together.
"""
