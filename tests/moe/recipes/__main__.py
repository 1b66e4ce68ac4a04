"""`python -m recipes NAME --out DIR [--fault FAULT]`: exit 0 when made, 2 for a wrong call, 1 with a message otherwise."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from recipes import FAULTS, names


def main(argv: list[str] | None = None) -> int:
    """Parses `argv`, makes the checkpoint, prints its folder."""
    parser = argparse.ArgumentParser(prog="python -m recipes", description=__doc__)
    parser.add_argument("name", choices=names())
    parser.add_argument("--out", required=True, type=Path, metavar="DIR", help="new or empty folder")
    parser.add_argument(
        "--fault", choices=tuple(FAULTS), help="planted fault; the reference stays the sound model's"
    )
    given = parser.parse_args(argv)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    from recipes.make import write
    from recipes.reference import RecipeError

    try:
        write(given.name, given.out, given.fault)
    except (FileExistsError, ValueError, RecipeError) as error:
        sys.stderr.write(f"recipes: {error}\n")
        return 1
    sys.stdout.write(f"{given.out}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
