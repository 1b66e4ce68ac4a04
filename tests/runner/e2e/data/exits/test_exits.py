import os


def test_first() -> None:
    assert True


def test_leaves() -> None:
    os._exit(0)
