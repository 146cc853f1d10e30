from __future__ import annotations

from hypothesis import settings

# The first example pays for caches and imports, and a busy machine for its neighbours: time is not what is tested.
settings.register_profile("text", deadline=None)
settings.load_profile("text")
