"""The run folder: what is on disk of one execution of a plan. A run killed at any instant leaves one that can be read."""

from runner.runs.folder import Folder, load, new_run_id
from runner.runs.history import Index, folders
from runner.runs.writing import write_atomic

__all__ = ["Folder", "Index", "folders", "load", "new_run_id", "write_atomic"]
