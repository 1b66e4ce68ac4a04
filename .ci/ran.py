"""Fails unless a run folder shows that real cells ran in Docker with evidence of the engine."""

import json
import sys
from pathlib import Path


def main(path: Path) -> str:
    """Return what is wrong with a run, or an empty text."""
    run = json.loads(path.read_text())["data"]
    records = {
        ",".join("=".join(pair) for pair in record["cell"]["axes"]): record for record in run["records"]
    }
    passed = [key for key, record in records.items() if record["verdict"]["outcome"] == "passed"]
    proven = [key for key in passed if records[key]["attempts"][-1]["evidence"]["ranks"]]
    int8 = {"zen", "amx_int8"} & set(run["inventory"]["cpu"]["facts"])
    need = 6 if int8 else 2
    print(f"{len(proven)} cells passed with evidence in {run['runtime']}; {need} are expected on this CPU")
    if run["runtime"] != "docker":
        return "the cells did not run in Docker"
    return "" if len(proven) == need == len(records) else f"passed with evidence: {proven}"


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])) or 0)
