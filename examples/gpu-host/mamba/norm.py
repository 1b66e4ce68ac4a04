"""vLLM's RMS norm of 16 bfloat16 numbers that begin at an offset into a row, as a mamba layer asks for it.

    python norm.py

A mamba layer splits one row into time step, B and C, and takes each `.contiguous()`. Of one row that is no copy, since a
dimension of size 1 has no stride to mind: B then begins where the time step ends. Each offset has a process of its own,
because a bad address ends a CUDA context.
"""
# ruff: noqa: T201

from __future__ import annotations

import subprocess
import sys

ASK = """
import sys, torch
from vllm import _custom_ops as ops
offset, rows = int(sys.argv[1]), int(sys.argv[2])
x = torch.randn(rows, 64, dtype=torch.bfloat16, device="cuda")
b = x[:, offset : offset + 16].contiguous()
out = torch.empty_like(b)
ops.rms_norm(out, b, torch.ones(16, dtype=torch.bfloat16, device="cuda"), 1e-6)
torch.cuda.synchronize()
"""


def main() -> None:
    """Print what each case ended with."""
    for offset, rows in ((4, 1), (4, 2), (8, 1), (12, 1), (16, 1)):
        done = subprocess.run(
            [sys.executable, "-c", ASK, str(offset), str(rows)], capture_output=True, text=True, check=False
        )
        said = [line for line in done.stderr.splitlines() if "rror" in line]
        print(
            f"{rows} row(s), offset {offset * 2} bytes: {'fine' if done.returncode == 0 else said[-1:]}",
            flush=True,
        )


if __name__ == "__main__":
    main()
