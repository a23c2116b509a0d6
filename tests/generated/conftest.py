"""Each spec is planned, and its header written, once a session."""

from __future__ import annotations

from pathlib import Path

import pytest

from mono_gen.plan.model import SpecPlan
from tests.generated.headers import plans, write_headers


@pytest.fixture(scope="session")
def spec_plans() -> dict[str, SpecPlan]:
    """Return the plan of each spec by its name."""
    return plans()


@pytest.fixture(scope="session")
def header_folder(tmp_path_factory: pytest.TempPathFactory, spec_plans: dict[str, SpecPlan]) -> Path:
    """Return a folder that holds the header of each spec."""
    return write_headers(tmp_path_factory.mktemp("headers"), spec_plans)
