"""A secret of several lines behind every writer that it passes on its way into a file."""

import base64
import html
import json
import random
import textwrap
import xml.etree.ElementTree as ET
from collections.abc import Callable
from urllib.parse import quote, quote_plus, urlencode
from xml.sax.saxutils import quoteattr

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.cells.redact import Redactor

RANDOM = random.Random(7)
BODY = textwrap.wrap(base64.b64encode(RANDOM.randbytes(700)).decode(), 64)
KEY = "\n".join(("-----BEGIN PRIVATE KEY-----", *BODY, "-----END PRIVATE KEY-----")) + "\n"
LINES = [line for line in KEY.split("\n") if len(line) >= 8]
ODD = "pass \"word\" <one>\tand\\more\nécole & 'two' 100%/\U0001f511+x"
"""Two lines with everything that one writer or another escapes."""
REDACTOR = Redactor({"KEY": KEY, "ODD": ODD})


def element(text: str, **attributes: str) -> str:
    top = ET.Element("failure", attributes)
    top.text = text
    return ET.tostring(top, encoding="unicode")


def each_line(before: str, end: str = "\n") -> Callable[[str], str]:
    return lambda text: "".join(before + line + end for line in text.split("\n"))


WRITERS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "pytest's error lines": each_line("E   "),
    "pytest's first error line": lambda text: each_line("E       ")("AssertionError: got " + text),
    "pytest's source lines": each_line(">       "),
    "a worker's prefix": each_line("(EngineCore pid=1) "),
    "lines of Windows": each_line("", "\r\n"),
    "carriage returns": each_line("", "\r"),
    "an XML attribute": lambda text: element("", message=text),
    "XML text": element,
    "ASCII XML": lambda text: ET.tostring(ET.fromstring(element(text, message=text))).decode(),
    "quoteattr": quoteattr,
    "hexadecimal references": lambda text: "".join(c if c.isalnum() else f"&#x{ord(c):X};" for c in text),
    "decimal references": lambda text: "".join(c if c.isalnum() else f"&#{ord(c):03};" for c in text),
    "HTML": html.escape,
    "JSON": json.dumps,
    "JSON with characters as they are": lambda text: json.dumps(text, ensure_ascii=False),
    "JSON with escaped slashes": lambda text: json.dumps(text).replace("/", "\\/"),
    "JSON with code points": lambda text: json.dumps(text).replace("\\n", "\\u000a"),
    "JSON with upper case": lambda text: json.dumps(text).replace("\\n", "\\u000A"),
    "repr": repr,
    "ascii": ascii,
    "repr of bytes": lambda text: repr(text.encode()),
    "a URL": quote,
    "a URL without slashes": lambda text: quote(text, safe=""),
    "a URL in lower case": lambda text: quote(text, safe="").replace("%2F", "%2f").replace("%0A", "%0a"),
    "a form": quote_plus,
    "a query": lambda text: urlencode({"key": text, "other": "1"}),
    "a URL in a URL": lambda text: quote(quote(text)),
    "JSON of a repr": lambda text: json.dumps({"longrepr": repr(text)}),
    "JSON of JSON of JSON": lambda text: json.dumps(json.dumps(json.dumps(text))),
    "XML of a repr": lambda text: element(f"assert {text!r} == 1", message=f"assert {text!r}"),
    "XML of JSON of pytest's lines": lambda text: element("", message=json.dumps(each_line("E   ")(text))),
    "XML of XML": lambda text: element(element(text, message=text), message=element(text, message=text)),
    "a URL of XML": lambda text: quote(element("", message=text), safe=""),
    "JSON of XML": lambda text: json.dumps(element(text, message=text)),
    "XML of JSON": lambda text: element(json.dumps(text), message=json.dumps(text)),
    "XML of a URL": lambda text: element("", message=f"https://host/?a=1&key={quote_plus(text)}&b=2"),
}
CODED: dict[str, Callable[[bytes], bytes]] = {
    "base64": base64.b64encode,
    "base64 one byte on": lambda raw: base64.b64encode(b"x" + raw + b"tail"),
    "base64 two bytes on": lambda raw: base64.b64encode(b"xy" + raw + b"t"),
    "URL-safe base64": base64.urlsafe_b64encode,
    "base64 by MIME": base64.encodebytes,
    "base64 by MIME, lines of Windows": lambda raw: base64.encodebytes(raw).replace(b"\n", b"\r\n"),
    "base64 by MIME in JSON": lambda raw: json.dumps(base64.encodebytes(raw).decode()).encode(),
    "base64 by openssl": lambda raw: "\n".join(textwrap.wrap(base64.b64encode(raw).decode(), 64)).encode(),
    "base64 of each line": lambda raw: b"\n".join(map(base64.b64encode, raw.split(b"\n"))),
    "base64 by MIME of each line": lambda raw: b"".join(map(base64.encodebytes, raw.split(b"\n"))),
    "base64 by MIME behind pytest's words": lambda raw: (
        b"E   " + base64.encodebytes(raw).replace(b"\n", b"\nE   ")
    ),
    "base64 of lines that pytest wrote": lambda raw: base64.b64encode(
        b"E   " + raw.replace(b"\n", b"\nE   ")
    ),
    "base64 in a URL": lambda raw: quote(base64.b64encode(raw).decode(), safe="").encode(),
    "base64 in JSON": lambda raw: json.dumps(base64.b64encode(raw).decode()).replace("/", "\\/").encode(),
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_no_line_of_a_key_passes_a_writer(write: Callable[[str], str]) -> None:
    clean = REDACTOR.text(f"before {write(KEY)} after")
    assert clean.startswith("before ")
    assert clean.endswith(" after")
    assert "[secret KEY]" in clean
    for line in LINES:
        for size in range(0, len(line) - 12, 4):
            assert line[size : size + 12].strip("-") not in clean


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_no_word_of_an_odd_secret_passes_a_writer(write: Callable[[str], str]) -> None:
    clean = REDACTOR.text(f"before {write(ODD)} after")
    assert "[secret ODD]" in clean
    assert not [word for word in ("pass", "word", "more", "cole", "two", "100") if word in clean], clean


@pytest.mark.parametrize("code", CODED.values(), ids=CODED)
def test_no_line_of_a_key_passes_base64(code: Callable[[bytes], bytes]) -> None:
    coded = code(KEY.encode())
    clean = REDACTOR.clean(b"before " + coded + b" after")
    assert clean.startswith(b"before ")
    assert clean.endswith(b" after")
    left = clean.replace(b"[secret KEY]", b"")
    assert len(left) < 0.15 * len(coded) + 20, left  # the characters that depend on what stands beside a line
    assert max(map(len, clean.replace(b"[secret KEY]", b" ").split())) < 24, clean


def test_a_short_line_of_a_secret_spoils_no_text_but_goes_with_its_neighbours() -> None:
    secret = Redactor({"S": "user\nhunter2hunter2\nthe\n"})
    assert secret.text("the user said the word") == "the user said the word"
    assert secret.text("E   hunter2hunter2") == "E   [secret S]"
    assert secret.text("<user\nhunter2hunter2\nthe>") == "<[secret S]>"
    assert secret.text(json.dumps("user\r\nhunter2hunter2\r\nthe")) == '"[secret S]"'


def test_a_key_inside_json_is_found_after_the_program_has_read_it() -> None:
    account = json.dumps({"type": "service_account", "private_key": KEY}, indent=2)
    secret = Redactor({"ACCOUNT": account})
    for line in BODY:
        assert secret.text(f"E   {line}") == "E   [secret ACCOUNT]"
    assert secret.text('"type": "other"') == '"type": "other"'


def test_a_secret_behind_a_backslash_or_percent_that_is_none_of_its_own() -> None:
    secret = Redactor({"S": "nothing-ABCD"})
    for before in ("\\", "\\\\", "%", "100%", "&", "&amp;", "\\u00"):
        assert secret.text(f"{before}nothing-ABCD") == f"{before}[secret S]"


def test_text_without_the_secret_stays_byte_for_byte() -> None:
    data = b'E   "quoted\\n" &lt;x&gt; 50%| %20 \\u00e9 \xff\x00 ' * 50 + b"MIIE" + bytes(range(256))
    assert REDACTOR.clean(data) == data


def test_a_very_long_secret_is_found_in_parts() -> None:
    long = "".join(RANDOM.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=5000))
    secret = Redactor({"LONG": long})
    assert secret.text(f"<{long}>").replace("[secret LONG]", "") == "<>"
    assert long[600:700] not in secret.text(f"E   {long[:1024]}...")


@pytest.mark.parametrize(
    "first", ["decimal references", "JSON with code points", "XML of a repr", "quoteattr"]
)
@pytest.mark.parametrize("second", ["a URL", "JSON", "hexadecimal references"])
def test_an_escape_inside_another_may_be_cut_anywhere(first: str, second: str) -> None:
    secret = Redactor({"S": '\\b>AI "x"\\\t_more&<9%ue\nJEFn_7d&gt;AA\\'})
    spelled = WRITERS[second](WRITERS[first]('\\b>AI "x"\\\t_more&<9%ue\nJEFn_7d&gt;AA\\'))
    data = f"before {spelled} after".encode()
    whole = secret.clean(data)
    assert b"[secret S]" in whole
    assert not [word for word in (b"AI", b"_more", b"JEFn", b"7d", b"AA") if word in whole], whole
    for cut in range(len(data)):
        stream = secret.stream()
        assert stream is not None
        assert stream.feed(data[:cut]) + stream.feed(data[cut:]) + stream.close() == whole


PARTS = [
    KEY,
    *LINES[:3],
    ODD,
    *(write(ODD) for write in WRITERS.values()),
    KEY[:40],
    "\\",
    "&",
    "%2",
    "\n",
    "x",
]


@settings(max_examples=30)
@given(st.lists(st.sampled_from(PARTS), max_size=5), st.lists(st.integers(1, 90), min_size=1, max_size=9))
def test_a_log_cut_anywhere_gives_what_the_whole_gives(words: list[str], sizes: list[int]) -> None:
    data = "".join(words).encode()
    stream, out, at, turn = REDACTOR.stream(), b"", 0, 0
    assert stream is not None
    while at < len(data):
        size = sizes[turn % len(sizes)]
        out, at, turn = out + stream.feed(data[at : at + size]), at + size, turn + 1
    assert out + stream.close() == REDACTOR.clean(data)
