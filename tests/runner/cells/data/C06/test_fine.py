def test_a() -> None:
    assert True


def test_b() -> None:
    assert True
