"""Image references, against what distribution's own tests take and refuse (``reference_test.go``)."""

from __future__ import annotations

import pytest

from runner.reference import credentials, is_reference, without_credentials

DIGEST = "sha256:" + "0123456789abcdef" * 4


@pytest.mark.parametrize(
    "text",
    [
        "vllm", "team/app:v1", "test.com/repo:tag", "test:5000/repo", "test:5000/repo:tag", "localhost/repo",
        f"test.com/repo@{DIGEST}", f"test:5000/repo:tag@{DIGEST}", "sub-dom1.foo.com/bar/baz/quux", "[2001:db8::1]:5000/repo",
        "Asdf.com/repo", "foo__bar/a--b", "Uppercase/lowercase", DIGEST,
    ],
)  # fmt: skip
def test_what_an_engine_takes(text: str) -> None:
    assert is_reference(text)


@pytest.mark.parametrize(
    "text",
    [
        "", "vllm:", ":justtag", "UPPER", "repo@sha256:abc", "repo@" + DIGEST[:-1], "https://r.example/x", "a//b", "a/b:t/c",
        "-foo/bar", "foo/bar-", "foo/bar$", "test.com/Upper/x", "a:tag with space", "r.example/x:" + "t" * 129, "validname@md5:1",
        "foo_bar.com:8080/repo",
    ],
)  # fmt: skip
def test_what_no_registry_takes(text: str) -> None:
    assert not is_reference(text)


@pytest.mark.parametrize(
    ("text", "before", "shown"),
    [
        ("me:secret@r.example/x", "me:secret", "***@r.example/x"),
        ("me:se/cr@et@r.example:5000/x:1", "me:se/cr@et", "***@r.example:5000/x:1"),
        (f"secret@r.example/x@{DIGEST}", "secret", f"***@r.example/x@{DIGEST}"),
        ("https://me:secret@r.example/x", "https://me:secret", "***@r.example/x"),
        (f"r.example/x@{DIGEST}", "", f"r.example/x@{DIGEST}"),
        ("r.example/x@sha256:ab", "", "r.example/x@sha256:ab"),
        ("./team@home", "", "./team@home"),
    ],
)
def test_credentials_are_found_and_hidden(text: str, before: str, shown: str) -> None:
    assert credentials(text) == before
    assert without_credentials(text) == shown
    assert without_credentials(f"cpu={text}") == f"cpu={shown}"
