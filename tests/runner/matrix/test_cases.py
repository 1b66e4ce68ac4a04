"""The field cases Y01 to Y16, with the keys of this project; each test says the case's own right behaviour."""

from __future__ import annotations

import json
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

import runner.matrix
from runner.codec import dumps
from runner.errors import MatrixError, RunnerError
from runner.model import Matrix

Load = Callable[..., Matrix]
Wrong = Callable[..., list[str]]
MIB = 1 << 20


def ids(matrix: Matrix) -> list[str]:
    return [each.cell.id for each in matrix.cells]


def peak_memory(action: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_y01_null_is_refused_with_its_position_and_the_key_on_is_reported_as_on(case_wrong: Wrong) -> None:
    null, key = case_wrong("Y01/matrix.yaml")
    assert null == "Y01/matrix.yaml:5:27: axis quant has no value (~) (write a value, or remove it)"
    assert key.startswith("Y01/matrix.yaml:8:1: the key 'on' is not known (known: axes, ")


def test_y01_words_are_kept_as_typed_everywhere(load: Load) -> None:
    matrix = load(
        """\
        version: 1
        suite: {proof: tests}
        axes:
          platform: [cpu]
          quant: [off, fp8, none]
          flash: [on, no, True]
          dtype: [fp16, y]
        env: {FLAG: no}
        rules: [{exclude: {flash: no}, reason: known}]
        include: [{cell: {platform: cpu, quant: yes, flash: off, dtype: y}}]
        """
    )
    assert matrix.axes == {
        "platform": ("cpu",),
        "dtype": ("fp16", "y"),
        "flash": ("on", "no", "True", "off"),
        "quant": ("off", "fp8", "none", "yes"),
    }
    assert len(matrix.cells) == 19
    assert sum(bool(each.excluded) for each in matrix.cells) == 6
    assert {each.settings.env["FLAG"] for each in matrix.cells} == {"no"}


@pytest.mark.parametrize("name", ["quoted", "unquoted"])
def test_y02_versions_are_four_cells_with_their_literal_texts(case: Load, name: str) -> None:
    assert ids(case(f"Y02/{name}.yaml")) == [
        "platform=cpu,toolkit=12.1",
        "platform=cpu,toolkit=12.10",
        "platform=cpu,toolkit=6.0",
        "platform=cpu,toolkit=1.10.0",
    ]


def test_y02_values_that_print_the_same_are_a_duplicate(wrong: Wrong) -> None:
    text = 'version: 1\nsuite: {proof: tests}\naxes: {platform: [cpu], v: [12.1, "12.1"]}\n'
    assert wrong(text) == ["3:35: axis v holds '12.1' twice: here and in line 3 (remove one)"]


@pytest.mark.parametrize(
    ("name", "mistake"),
    [
        ("axis-twice", "6:3: axes.platform is given twice: here and in line 4 (keep one of them)"),
        (
            "exclude-twice",
            "11:7: rules[0].exclude.platform is given twice: here and in line 9 (keep one of them)",
        ),
        ("quoted-twice", "3:36: axes.tp is given twice: here and in line 3 (keep one of them)"),
    ],
)
def test_y04_a_second_key_is_refused_with_path_and_both_lines(
    case_wrong: Wrong, name: str, mistake: str
) -> None:
    assert case_wrong(f"Y04/{name}.yaml") == [f"Y04/{name}.yaml:{mistake}"]


def test_y04_a_merged_key_overridden_by_hand_is_no_duplicate(case_wrong: Wrong, load: Load) -> None:
    (mistake,) = case_wrong("Y04/merge-is-fine.yaml")
    assert mistake.startswith("Y04/merge-is-fine.yaml:3:1: the key 'base' is not known (")
    assert mistake.endswith("; a key of your own, to hold anchors, begins with x-)")
    text = (Path(__file__).parent / "data/Y04/merge-is-fine.yaml").read_text().replace("base:", "x-base:", 1)
    assert ids(load(text)) == [
        "platform=cpu,dtype=fp16",
        "platform=cpu,dtype=bf16",
        "platform=cpu,dtype=fp32",
    ]


@pytest.mark.parametrize(
    ("name", "mistake"),
    [
        ("bomb", "8:4: with its aliases written out this holds more than 200000 values (use fewer aliases)"),
        ("cycle", "6:10: *loop stands inside the value that it names (write the value out)"),
    ],
)
def test_y06_bombs_and_cycles_are_refused_in_little_memory(
    case_wrong: Wrong, name: str, mistake: str
) -> None:
    found: list[str] = []
    assert peak_memory(lambda: found.extend(case_wrong(f"Y06/{name}.yaml"))) < 20 * MIB
    assert found == [f"Y06/{name}.yaml:{mistake}"]


def test_y06_an_honest_anchor_used_fifty_times_works(case: Load) -> None:
    matrix = case("Y06/honest.yaml")
    assert len(matrix.cells) == 51
    assert sum(each.settings.env == {"A": "1"} for each in matrix.cells) == 50
    assert matrix.remarks == ("only included cells have dtype=d0, d1, d2, d3, d4 and 45 more",)


def test_y07_bom_and_windows_lines_load_like_the_clean_file(case: Load, load: Load) -> None:
    matrix = case("Y07/bom-crlf.yaml")
    clean = load("version: 1\nsuite: {proof: tests}\naxes:\n  platform: [cpu]\n  dtype: [fp16]\n")
    assert ids(matrix) == ids(clean) == ["platform=cpu,dtype=fp16"]
    assert matrix.hash == clean.hash


@pytest.mark.parametrize(
    ("name", "mistake"),
    [
        ("tab", "4:1: a tab (U+0009) cannot indent YAML (use spaces)"),
        ("esc", "5:10: the character U+001B is not allowed in YAML (remove it)"),
        (
            "latin1",
            "5:12: byte 0xE9 is not UTF-8; as Latin-1 it would be U+00E9 'é' (save the file as UTF-8)",
        ),
        ("nbsp", "4:14: axis platform: 'cpu<U+00A0>' holds the invisible character U+00A0 (remove it)"),
    ],
)
def test_y07_the_offending_character_is_named_by_code_point(
    case_wrong: Wrong, name: str, mistake: str
) -> None:
    assert case_wrong(f"Y07/{name}.yaml") == [f"Y07/{name}.yaml:{mistake}"]


def test_y07_a_directory_a_missing_and_an_unreadable_file_are_plain_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def says(path: Path) -> str:
        with pytest.raises(MatrixError) as caught:
            runner.matrix.load(path)
        return str(caught.value)

    assert says(tmp_path) == f"{tmp_path}:1:1: this is a directory (give the path of a matrix file in it)"
    missing = tmp_path / "no.yaml"
    assert says(missing) == f"{missing}:1:1: there is no such file (give the path of a matrix file)"
    os.mkfifo(tmp_path / "pipe")  # to open it would be to wait for ever
    irregular = "this is no regular file but a pipe, a socket or a device (give the path of a matrix file)"
    assert says(tmp_path / "pipe") == f"{tmp_path / 'pipe'}:1:1: {irregular}"
    assert says(Path("/dev/zero")) == f"/dev/zero:1:1: {irregular}"

    def refuse(*_: object, **__: object) -> None:  # root may read everything, so a mode cannot show this
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    assert says(missing) == f"{missing}:1:1: the file may not be read by this user (chmod +r)"


@pytest.mark.parametrize(
    ("name", "mistake"),
    [
        ("empty", "1:1: the file is empty (begin with: version: 1)"),
        ("comments", "1:1: the file holds nothing but comments (begin with: version: 1)"),
        ("list", "1:1: the file is a list, not a mapping (begin with: version: 1)"),
        (
            "twodocs",
            "4:1: the file holds a second YAML document (keep one; for another matrix write another file)",
        ),
        ("no-axes", "3:6: axes is empty (give it keys, or remove it)"),
        ("scalar-axis", "4:13: axis platform must be a list (write [cpu])"),
        ("empty-axis", "5:10: axis dtype has no values (write at least one, such as [a, b])"),
        ("all-excluded", "4:3: every cell is excluded, so there is nothing to run (relax an exclusion)"),
        ("typo", "5:1: the key 'rulse' is not known (did you mean rules?)"),
    ],
)
def test_y08_each_wrong_shape_has_its_own_plain_sentence(case_wrong: Wrong, name: str, mistake: str) -> None:
    assert case_wrong(f"Y08/{name}.yaml") == [f"Y08/{name}.yaml:{mistake}"]


def test_y09_partial_excludes_then_includes(case: Load) -> None:
    matrix = case("Y09/matrix.yaml")
    assert len(matrix.cells) == len(set(ids(matrix))) == 12
    dropped = {
        each.cell.id: [reason.source for reason in each.excluded] for each in matrix.cells if each.excluded
    }
    assert dropped == {
        "platform=rocm,tp=2,quant=fp8": ["matrix.yaml:8"],
        "platform=cpu,tp=2,quant=none": ["matrix.yaml:12"],
        "platform=cpu,tp=2,quant=fp8": ["matrix.yaml:12"],
    }
    by_id = {each.cell.id: each for each in matrix.cells}
    merged = by_id["platform=cpu,tp=1,quant=fp8"]
    assert dict(merged.settings.env) == {"EXTRA": "1"}
    assert merged.included_by == "matrix.yaml:17"
    back = by_id["platform=rocm,tp=1,quant=fp8"]
    assert (back.excluded, back.included_by) == ((), "matrix.yaml:22")


def test_y09_without_includes_eight_cells_are_left(load: Load) -> None:
    text = (Path(__file__).parent / "data/Y09/matrix.yaml").read_text()
    matrix = load(text[: text.index("include:")])
    assert len(matrix.cells) == 12
    assert sum(not each.excluded for each in matrix.cells) == 8


def test_y09_a_rule_that_matches_nothing_and_an_unknown_axis_are_errors(case_wrong: Wrong) -> None:
    assert case_wrong("Y09/never-matches.yaml") == [
        "Y09/never-matches.yaml:8:17: the axis platform has no value 'xpu', so this matches nothing (did you mean cpu?)"
    ]
    assert case_wrong("Y09/unknown-key.yaml") == [
        "Y09/unknown-key.yaml:8:7: exclude: 'backnd' is no axis (known: platform)"
    ]


def test_y11_ten_billion_cells_are_counted_not_built(case_wrong: Wrong) -> None:
    found: list[str] = []
    assert peak_memory(lambda: found.extend(case_wrong("Y11/huge.yaml"))) < 20 * MIB
    text = "the product has 10000000000 cells (10000000000 after exclude), the limit is 100000"
    fix = "use fewer values, or raise the limit with --max-cells"
    assert found == [f"Y11/huge.yaml:4:3: {text} ({fix})"]


def test_y11_three_hundred_cells_pass_and_the_limit_can_be_set(case: Load, wrong: Wrong) -> None:
    assert len(case("Y11/three-hundred.yaml").cells) == 300
    text = (Path(__file__).parent / "data/Y11/three-hundred.yaml").read_text()
    (mistake,) = wrong(text, max_cells=299)
    assert mistake.startswith("4:3: the product has 300 cells (300 after exclude), the limit is 299 (")


def test_y13_dates_and_exponents_keep_their_texts(case: Load) -> None:
    matrix = case("Y13/matrix.yaml")
    assert matrix.axes["image_tag"] == ("2024-05-01", "20240501", "2024-05-01T10:00:00Z")
    assert matrix.axes["lr"] == ("1e3", "1.0e+3")
    assert len(matrix.cells) == 6
    assert json.loads(dumps(matrix.cells[0].cell))["axes"][1] == ["image_tag", "2024-05-01"]


def test_y13_nan_and_infinity_are_refused(case_wrong: Wrong) -> None:
    assert case_wrong("Y13/nan.yaml") == [
        "Y13/nan.yaml:5:9: axis tol: .nan is no value that can be compared (use a word)",
        "Y13/nan.yaml:5:15: axis tol: .inf is no value that can be compared (use a word)",
    ]


@pytest.mark.parametrize(
    ("name", "tag"),
    [
        ("apply", "!!python/object/apply:builtins.len"),
        ("object", "!!python/name:builtins.len"),
        ("unknown", "!vault"),
    ],
)
def test_y15_tags_are_refused_with_their_line_and_nothing_is_called(
    case_wrong: Wrong, name: str, tag: str
) -> None:
    found = case_wrong(f"Y15/{name}.yaml")
    assert any(line.startswith(f"Y15/{name}.yaml:4:13: the tag {tag} is not taken: ") for line in found)
    assert len(found) <= 2


def test_y16_null_is_refused_so_that_no_variable_of_the_host_can_slip_in(case_wrong: Wrong) -> None:
    assert case_wrong("Y16/matrix.yaml") == [
        'Y16/matrix.yaml:8:9: env.EMPTY has no value (write a value, or "" for an empty text)'
    ]


def test_y16_values_arrive_as_typed_byte_for_byte(load: Load) -> None:
    text = (Path(__file__).parent / "data/Y16/matrix.yaml").read_text().replace("EMPTY:\n", 'EMPTY: ""\n')
    assert dict(load(text).cells[0].settings.env) == {
        "FLAG": "no",
        "VERSION": "1.10",
        "BUILD": "007",
        "EMPTY": "",
        "DOLLAR": "a$HOME ${X:-y} $$z \\$w",
        "QUOTES": 'it\'s "fine" `ok`',
        "MULTI": "line 1\nline 2",
    }


def test_y16_names_that_no_variable_can_have_are_refused(case_wrong: Wrong) -> None:
    assert case_wrong("Y16/bad-names.yaml") == [
        "Y16/bad-names.yaml:5:3: env: the name 'A=B' does not fit (use letters, digits and _, a letter first)",
        "Y16/bad-names.yaml:6:3: env: the name '' is empty (write a value)",
        "Y16/bad-names.yaml:7:3: env: the name 'HAS SPACE' does not fit (use letters, digits and _, a letter first)",
    ]


def test_every_mistake_of_a_matrix_ends_with_exit_code_2() -> None:
    assert issubclass(MatrixError, RunnerError)
    assert MatrixError.exit_code == 2
