"""docs/mutations.md from the planted faults themselves: one row for each, and the check that catches it.

python -m selftest.mutation_page > ../../docs/mutations.md        # from tests/moe
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).resolve().parent / ".." / ".." / ".." / "docs" / "mutations.md"
"""In a cell the suite stands alone, and there is no such file."""

HEAD = """\
# The mutation table

Every fault that this suite plants, and the check that catches it. None may pass. Made from the code of the tests by
`python -m selftest.mutation_page` (in `tests/moe`); a test fails where the page and the code differ.

| where | planted in | needs an engine | run by |
| --- | --- | --- | --- |
| answers | what an engine answered | no | `selftest/test_mutation_table.py` |
| ranks | what the ranks of a tp 2 engine say of themselves | no | `selftest/test_mutation_table.py` |
| checkpoint | stored weights, by `python -m recipes NAME --fault FAULT`; several models and formats | no (transformers) | `selftest/test_faults.py` |
| live | weights of one running engine at tp 2, in both mixture layers, each taken back again | yes | `selftest/test_live_faults.py` |

The docker tests (`tests/runner/e2e/test_planted_faults.py`) run all four in cells: one live engine, and one without an engine.

"""


class Row(NamedTuple):
    """One planted fault."""

    where: str
    fault: str
    caught_by: str


REFERENCE = "comparison with the reference (`agreement.compare`)"
ANSWERS = "; without a reference: the look at the answers alone (`answers.problems`)"
RANKS = "every rank's own words (`expectations.rank_problems`)"


def rows() -> Iterator[Row]:
    """Every planted fault, in the order of the page."""
    from recipes import FAULTS

    from selftest import mutations
    from selftest import test_mutation_table as offline

    for fault in offline.ANSWER_FAULTS:
        alone = ANSWERS if fault in offline.SEEN_WITHOUT_REFERENCE else ""
        yield Row("answers", fault, REFERENCE + alone)
    yield Row("answers", "a second greedy run that differs", "comparison of two runs (`test_generation.py`)")
    for fault, (_, words) in offline.RANK_FAULTS.items():
        yield Row("ranks", fault, f"{RANKS}: {words}")
    for fault, text in FAULTS.items():
        caught = f"{RANKS}: fell back" if fault == "wrong_expert_dtype" else REFERENCE
        yield Row("checkpoint", f"`{fault}`: {text}", caught)
    for fault in mutations.LIVE:
        yield Row("live", f"`{fault}`: {mutations.LIVE[fault]}", REFERENCE)
    yield Row("live", "experts dequantized to bfloat16", f"{RANKS}: expert_weight_dtype")


def page() -> str:
    """The whole page."""
    found = list(rows())
    lines = [f"{len(found)} faults:", "", "| # | where | fault | caught by |", "| --- | --- | --- | --- |"]
    lines += [f"| {n} | {r.where} | {r.fault} | {r.caught_by} |" for n, r in enumerate(found, 1)]
    return HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
