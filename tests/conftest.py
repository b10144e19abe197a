"""Settings of every test, Python or browser."""

from __future__ import annotations

import os

from hypothesis import settings

# The models that the tests read come as packages; a hub is never asked.
os.environ["HF_HUB_OFFLINE"] = "1"

# On a busy machine an example may be slow for no reason of its own.
# In CI the same examples each time: what is found there was changed there.
settings.register_profile(
    "attnmap_widget", deadline=None, print_blob=True, derandomize=bool(os.environ.get("CI"))
)
settings.load_profile("attnmap_widget")
