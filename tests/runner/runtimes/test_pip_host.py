from __future__ import annotations

from pathlib import Path

import pytest

from runner.runtimes.pip_host import (
    PipSettings,
    explain_failure,
    matching_wheels,
    parse_settings,
    pins,
    pip_conf,
)

LISTED = """\
:env:.find-links='/env/wheels https://links.invalid/page'
global.find-links='/ignored'
global.index-url='https://index.invalid/simple'
global.extra-index-url='file:///disk/simple https://more.invalid/simple'
install.trusted-host='index.invalid'
global.cert='/etc/ssl/ca.crt'
WARNING: something else
"""


def test_the_environment_wins_and_only_addresses_travel() -> None:
    settings = parse_settings(LISTED)
    assert settings.wheel_folders == (Path("/env/wheels"),)
    assert settings.remote == {
        "index-url": "https://index.invalid/simple",
        "trusted-host": "index.invalid",
        "extra-index-url": "https://more.invalid/simple",
        "find-links": "https://links.invalid/page",
    }


def test_a_folder_may_be_an_address_of_a_file() -> None:
    settings = parse_settings("global.find-links='file:///my%20wheels\\n/two /env/x'\n")
    assert settings.wheel_folders == (Path("/my wheels"), Path("/two"), Path("/env/x"))


def test_no_settings_are_no_settings() -> None:
    assert parse_settings("") == PipSettings()


def test_pins_are_names_with_exact_versions() -> None:
    text = "# torch==9\ntorch==2.13.0+cpu\nPy_Yaml==6.0 ; python_version > '3'\nfastapi[all]==1.2 # why\nloose>=1\n"
    assert pins(text) == {"torch": "2.13.0+cpu", "py-yaml": "6.0", "fastapi": "1.2"}


def test_only_wheels_of_pinned_versions_are_taken_once(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    for folder in (first, second):
        folder.mkdir()
        (folder / "torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl").touch()
    (first / "torch-2.14.0+cpu-cp311-cp311-linux_x86_64.whl").touch()
    (first / "Py_Yaml-6.0-py3-none-any.whl").touch()
    (first / "other-1.0-py3-none-any.whl").touch()
    found = matching_wheels((first, tmp_path / "none", second), {"torch": "2.13.0+cpu", "py-yaml": "6.0"})
    assert [path.relative_to(tmp_path).as_posix() for path in found] == [
        "a/Py_Yaml-6.0-py3-none-any.whl",
        "a/torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl",
    ]


def test_the_file_for_the_builder_has_paths_of_the_builder() -> None:
    text = pip_conf(
        PipSettings(remote={"find-links": "https://l.invalid"}), certificate="/host/ca.crt", wheels="/wheels"
    )
    lines = dict(line.split(" = ") for line in text.splitlines()[1:])
    assert text.startswith("[global]\n")
    assert (lines["cert"], lines["find-links"]) == ("/host/ca.crt", "https://l.invalid /wheels")
    assert "cert" not in pip_conf(PipSettings())


@pytest.mark.parametrize("dot", ["", "."])
def test_a_missing_cpu_torch_names_the_setting_that_is_missing(dot: str) -> None:
    said = explain_failure(f"ERROR: No matching distribution found for torch==2.13.0+cpu{dot}\n")
    assert said.startswith("torch==2.13.0+cpu is not in pip's package index")
    assert "PIP_FIND_LINKS" in said
    assert explain_failure("ERROR: No matching distribution found for other==1") == ""
    assert explain_failure("ERROR: Cannot install torch==2.13.0+cpu because of conflicts").startswith(
        "torch==2.13.0+cpu is"
    )
