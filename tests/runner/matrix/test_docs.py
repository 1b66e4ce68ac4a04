"""Every example of docs/matrix.md loads, and has the cells that its first line promises."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from runner.model import Matrix

DOCS = Path(__file__).parents[3] / "docs" / "matrix.md"
EXAMPLES = re.findall(r"```yaml\n(.*?)```", DOCS.read_text(), re.DOTALL)


@pytest.mark.parametrize("text", EXAMPLES, ids=range(len(EXAMPLES)))
def test_example(load: Callable[..., Matrix], text: str) -> None:
    promised = dict.fromkeys(("cell", "excluded", "refused"), 0)
    for number, what in re.findall(r"(\d+) (cell|excluded|refused)", text.splitlines()[0]):
        promised[what] = int(number)
    matrix = load(text)
    assert promised == {
        "cell": len(matrix.cells),
        "excluded": sum(bool(each.excluded) for each in matrix.cells),
        "refused": sum(each.refused is not None for each in matrix.cells),
    }


def test_there_are_examples_of_everything() -> None:
    assert len(EXAMPLES) == 5
