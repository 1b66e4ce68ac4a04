"""Checkpoints for the self tests, each made once a session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

Make = Callable[[str], Path]


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Recipe name -> folder of its sound checkpoint."""
    folders: dict[str, Path] = {}

    def make(name: str) -> Path:
        from recipes.make import write

        if name not in folders:
            folders[name] = tmp_path_factory.mktemp("checkpoint") / name
            write(name, folders[name])
        return folders[name]

    return make
