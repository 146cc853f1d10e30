"""The version, for `--version`, reports and signatures."""

__version__ = "0.1.0"
