"""What a file of soak results adds up to: ``python tests/soak/summary.py FILE...`` prints the rows of benchmarks/soak.md."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

HEAD = "date | commit, code | engine | seeds | two at once | runners killed | signals | containers | daemons | problems"


def rows(lines: list[dict[str, Any]]) -> list[str]:
    """One row for each state of the code and engine, and one that says where the faults met their runners."""
    found = []
    for code, engine in sorted({(line["code"], line["engine"]) for line in lines}):
        mine = [line for line in lines if (line["code"], line["engine"]) == (code, engine)]
        met = Counter(each for line in mine for each in line["faults"])

        def count(*words: str, met: Counter[str] = met) -> int:
            return sum(
                number
                for text, number in met.items()
                if text.startswith(words) and not text.endswith((" nothing", " ended"))
            )

        numbers = sorted(line["seed"] for line in mine)
        cells = (
            mine[-1]["date"][:10], f"{mine[-1]['commit']}, {code}", engine,
            f"{len(set(numbers))} ({numbers[0]}-{numbers[-1]})", sum(len(line["faults"]) > 1 for line in mine),
            count("kill runner"), count("SIG"), count("kill container", "remove container"),
            count("kill daemon", "hang daemon"), sum(bool(line["problems"]) for line in mine),
        )  # fmt: skip
        found.append(f"| {' | '.join(map(str, cells))} |")
        phases = Counter(
            text.rpartition(" in ")[2] for text in met.elements() if not text.startswith("nothing")
        )
        found.append("  met: " + ", ".join(f"{number} {phase}" for phase, number in phases.most_common()))
    return found


if __name__ == "__main__":
    texts = [line for name in sys.argv[1:] for line in Path(name).read_text().splitlines()]
    sys.stdout.write(f"| {HEAD} |\n" + "\n".join(rows([json.loads(text) for text in texts])) + "\n")
