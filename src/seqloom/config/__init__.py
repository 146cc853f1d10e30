"""Configuration: one typed schema, presets, and settings from the command line."""

from seqloom.config.loading import (
    Setting,
    Settings,
    copy_preset,
    listed_settings,
    load_config,
    named_kinds,
    preset_names,
    read_yaml,
    save_config,
)
from seqloom.config.schema.run import RunConfig

__all__ = [
    "RunConfig",
    "Setting",
    "Settings",
    "copy_preset",
    "listed_settings",
    "load_config",
    "named_kinds",
    "preset_names",
    "read_yaml",
    "save_config",
]
