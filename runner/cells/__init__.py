"""One cell: build its spec, run it, gather its files, ask for the verdict. Follow :func:`run_cell` to read the path."""

from runner.cells.one import CellWork, run_cell

__all__ = ["CellWork", "run_cell"]
