import base64
import html
import json
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.cells.clean import clean_file, clean_folder
from runner.cells.redact import Redactor, chosen
from runner.model import Culprit, Outcome, Verdict
from runner.records import Attempt

TOKEN = "hf_Ab/9+x=&\"'<z ~q7"
ONE = Redactor({"HF_TOKEN": TOKEN})
MARK = b"[secret HF_TOKEN]"

SPELLINGS = {
    "as it is": TOKEN,
    "URL-encoded": quote(TOKEN, safe=""),
    "URL-encoded, slashes kept": quote(TOKEN),
    "form-encoded": quote_plus(TOKEN),
    "URL-encoded in lower case": "hf_Ab%2f9%2bx%3d%26%22%27%3cz%20~q7",
    "in JSON": json.dumps(TOKEN),
    "in XML": html.escape(TOKEN),
    "in XML text": html.escape(TOKEN, quote=False),
    "in a Python repr": repr([TOKEN]),
    "base64": base64.b64encode(TOKEN.encode()).decode(),
    "base64 of user and token": base64.b64encode(b"user:" + TOKEN.encode()).decode(),
    "base64, one byte before": base64.b64encode(b"x" + TOKEN.encode() + b"tail").decode(),
    "base64, two bytes before": base64.b64encode(b"xy" + TOKEN.encode() + b"t").decode(),
    "URL-safe base64": base64.urlsafe_b64encode(TOKEN.encode()).decode(),
    "base64, URL-encoded": quote(base64.b64encode(TOKEN.encode()).decode(), safe=""),
}


def core(before: int) -> bytes:
    """The characters of base64 that depend on nothing but the token."""
    encoded = base64.b64encode(b"\0" * before + TOKEN.encode())
    return encoded[-(-before * 8 // 6) : (before + len(TOKEN)) * 8 // 6]


@pytest.mark.parametrize("text", SPELLINGS.values(), ids=SPELLINGS)
def test_every_spelling_of_a_secret_is_replaced(text: str) -> None:
    clean = ONE.clean(f"before {text} after".encode())
    assert clean.startswith(b"before ")
    assert clean.endswith(b" after")
    assert MARK in clean
    for part in (TOKEN.encode(), *map(core, range(3))):
        assert part not in clean
        assert part.replace(b"+", b"-").replace(b"/", b"_") not in clean


@given(
    st.lists(st.sampled_from([*SPELLINGS.values(), "hf_Ab", " ", "x\n", "aGZf"]), max_size=6),
    st.lists(st.integers(1, 40), min_size=1),
)
def test_a_stream_cut_anywhere_gives_what_the_whole_gives(words: list[str], sizes: list[int]) -> None:
    data = "".join(words).encode()
    stream, out, at, turn = ONE.stream(), b"", 0, 0
    assert stream is not None
    while at < len(data):
        size = sizes[turn % len(sizes)]
        out, at, turn = out + stream.feed(data[at : at + size]), at + size, turn + 1
    assert out + stream.close() == ONE.clean(data)


def test_a_stream_keeps_back_only_what_may_begin_a_secret() -> None:
    stream = ONE.stream()
    assert stream is not None
    assert stream.feed(b"a line\n") == b"a line\n"
    assert stream.feed(b"so far hf_A") == b"so far "
    assert stream.feed(b"lice\n") == b"hf_Alice\n"


def test_a_secret_that_begins_like_another_one_hides_neither() -> None:
    two = Redactor({"SHORT": "sesame", "LONG": "sesame-open"})
    assert two.clean(b"sesame-open sesame") == b"[secret LONG] [secret SHORT]"
    stream = two.stream()
    assert stream is not None
    assert stream.feed(b"sesame") + stream.feed(b"-open") + stream.close() == b"[secret LONG]"


def test_without_secrets_nothing_is_looked_at(tmp_path: Path) -> None:
    none = Redactor({})
    assert (bool(none), none.stream(), none.clean(b"x"), clean_folder(tmp_path, none)) == (
        False,
        None,
        b"x",
        (),
    )


def test_a_value_too_short_to_be_a_secret_spoils_no_text() -> None:
    assert Redactor({"N": "1"}).clean(b"1 of 1") == b"1 of 1"


def test_files_and_their_names_lose_their_secrets_and_others_stay_untouched(tmp_path: Path) -> None:
    secret = Redactor({"T": "topsecret"})
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "log.txt").write_bytes(b"\xff topsecret\n")
    (tmp_path / "topsecret.txt").write_text("nothing")
    (tmp_path / "clean.txt").write_text("nothing")
    (tmp_path / "link").symlink_to(tmp_path / "clean.txt")
    before = (tmp_path / "clean.txt").stat().st_ino
    assert clean_folder(tmp_path, secret) == (
        "a secret was taken out of deep/log.txt",
        "a secret was taken out of _secret_T_.txt",
    )
    assert (tmp_path / "deep" / "log.txt").read_bytes() == b"\xff [secret T]\n"
    assert (tmp_path / "clean.txt").stat().st_ino == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["_secret_T_.txt", "clean.txt", "deep", "link"]


def test_a_secret_across_the_pieces_of_a_large_file_is_found(tmp_path: Path) -> None:
    file = tmp_path / "big"
    file.write_bytes(b"x" * ((1 << 20) - 4) + b"topsecret" + b"y" * 10)
    assert clean_file(file, Redactor({"T": "topsecret"}))
    assert file.read_bytes() == b"x" * ((1 << 20) - 4) + b"[secret T]" + b"y" * 10


def test_every_text_of_a_record_loses_its_secrets() -> None:
    verdict = Verdict(outcome=Outcome.FAILED, culprit=Culprit.PRODUCT, cause=f"got {TOKEN}", remarks=(TOKEN,))
    clean = ONE.value(Attempt(number=1, verdict=verdict, files={"a/log.txt": "sha256:1"}))
    assert clean.verdict.cause == "got [secret HF_TOKEN]"
    assert clean.verdict.remarks == ("[secret HF_TOKEN]",)
    assert (clean.verdict.outcome, clean.files) == (Outcome.FAILED, {"a/log.txt": "sha256:1"})


def test_only_named_variables_are_taken_and_empty_ones_are_not() -> None:
    assert chosen(("A", "B", "C"), {"A": "1", "B": "", "D": "2"}) == {"A": "1"}
