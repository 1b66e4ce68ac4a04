"""A run or a plan as text: terminal, Markdown and a self-contained page, all from one view. Never runs or re-judges.

Importing this is cheap: jinja2 and rich are imported where they are used.
"""

from runner.report.history_text import history_text
from runner.report.live import LineProgress, LiveProgress, Progress, progress
from runner.report.markdown import markdown
from runner.report.page import html
from runner.report.plan_text import plan_text
from runner.report.rerun import rerun_line
from runner.report.terminal import terminal
from runner.report.vocabulary import LOOKS, MISSING, TONES, Look, Tone

__all__ = [
    "LOOKS",
    "MISSING",
    "TONES",
    "LineProgress",
    "LiveProgress",
    "Look",
    "Progress",
    "Tone",
    "history_text",
    "html",
    "markdown",
    "plan_text",
    "progress",
    "rerun_line",
    "terminal",
]
