"""Tests of the suite itself: that a sound model passes and every planted fault is seen. Not collected in a cell's run.

Run with `python -m pytest -c SUITE/pytest.ini --rootdir SUITE SUITE/selftest`; `test_live_faults.py` needs MATRIX_CELL.
"""
