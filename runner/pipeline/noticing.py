"""What a run says beyond its cells: news of methods, and cells that disagree. From the run value alone, so it can be redone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runner import across, support
from runner.records import Notice, Run


def notices(run: Run, baseline: Run | None = None) -> tuple[Notice, ...]:
    """Every notice of a run, red ones first. Cells of other platforms in a baseline are compared with those of the run."""
    found = (*support.notices(run), *across.notices(run, baseline))
    return tuple(sorted(found, key=lambda notice: not notice.red))


def early(run: Run) -> tuple[str, ...]:
    """What is news as soon as the images are probed, a line each."""
    return tuple(notice.text for notice in support.notices(run))


def probe_news(probe: Mapping[str, Any], platform: str) -> tuple[str, ...]:
    """The news of one probe, a line each: what ``images probe`` shows."""
    return tuple(one.line for one in support.news(probe, platform))
