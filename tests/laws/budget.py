"""How many examples a law is shown: the same ones in each run, so that a commit passes or fails, not both.

LAWS=20 in the environment shows twenty times as many, new ones in each run: `make laws`.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

TIMES = int(os.environ.get("LAWS", "1"))


def examples(count: int) -> settings:
    """Return the settings of a law; no deadline, for machines are busy at times."""
    busy = [HealthCheck.too_slow, HealthCheck.filter_too_much]
    return settings(max_examples=count * TIMES, derandomize=TIMES == 1, deadline=None, suppress_health_check=busy)
