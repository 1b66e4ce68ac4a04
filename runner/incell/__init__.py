"""What a cell reports while it runs: a pytest plugin that logs every test, and the writer of evidence.

This package is copied into the cell, so it needs nothing but the standard library and pytest, and never imports `runner`.
"""
