"""Finished runs for tests of the gate."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.runner.release.factory import POLICY, Gated, go

Make = Callable[..., Gated]


@pytest.fixture
def make_run(tmp_path: Path) -> Make:
    """Makes a finished run, with a policy beside it."""

    def make(*args: object, **options: object) -> Gated:
        (tmp_path / "policy.yaml").write_text(POLICY)
        return Gated(go(tmp_path, *args, **options), tmp_path / "policy.yaml")  # type: ignore[arg-type]

    return make


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One green run, made once; tests work on copies of it."""
    return go(tmp_path_factory.mktemp("finished"))


@pytest.fixture
def green(finished: Path, tmp_path: Path) -> Gated:
    """A green run in a folder of its own."""
    folder = tmp_path / finished.name
    shutil.copytree(finished, folder)
    (tmp_path / "policy.yaml").write_text(POLICY)
    return Gated(folder, tmp_path / "policy.yaml")
