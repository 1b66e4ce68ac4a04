import pytest


@pytest.mark.parametrize("number", range(3))
def test_no_gpu(number: int) -> None:
    pytest.skip("no GPU on this host")
