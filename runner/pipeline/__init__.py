"""The order of the rooms, one function a verb. Nothing here prints, exits or decides.

Start at :func:`runner.pipeline.run.run`; rooms do the work, and :mod:`runner.cli` shows what came out.
"""

from runner.pipeline.gate import GateResult, gate, read_waivers, waive, write_page, write_statement
from runner.pipeline.history import History, history
from runner.pipeline.host import clean, doctor
from runner.pipeline.images import ImageLine, images
from runner.pipeline.noticing import probe_news
from runner.pipeline.planning import Outlook, explain_cell, make_plan, outlook, plan_diff
from runner.pipeline.reading import Past, exit_code, explain, folder_notes, load_report
from runner.pipeline.run import Done, resume, run
from runner.pipeline.wish import Wish
from runner.plan import as_json as plan_json
from runner.plan import sentence as plan_sentence

__all__ = [
    "Done",
    "GateResult",
    "History",
    "ImageLine",
    "Outlook",
    "Past",
    "Wish",
    "clean",
    "doctor",
    "exit_code",
    "explain",
    "explain_cell",
    "folder_notes",
    "gate",
    "history",
    "images",
    "load_report",
    "make_plan",
    "outlook",
    "plan_diff",
    "plan_json",
    "plan_sentence",
    "probe_news",
    "read_waivers",
    "resume",
    "run",
    "waive",
    "write_page",
    "write_statement",
]
