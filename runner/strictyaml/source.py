"""From a path to the text of a file: every way in which a file can be no text is one plain mistake."""

from __future__ import annotations

import re
from pathlib import Path

from runner.strictyaml.mistakes import TOP, Mark, Mistakes

MAX_BYTES = 256 * 1024
"""Size of a file at most. A million cells need a few kilobytes; YAML is read at about half a MB a second."""

_NOT_YAML = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What YAML 1.1, section 5.1, leaves out of a stream."""


def read_text(path: Path, mistakes: Mistakes) -> str:
    """The file's text without byte order mark. Raises ``Unreadable`` after noting why there is none."""
    raw = _read_bytes(path, mistakes)
    if len(raw) > MAX_BYTES:
        raise mistakes.refuse(
            TOP, f"the file has more than {MAX_BYTES} bytes, which is the limit for a {mistakes.noun}"
        )
    text = _decode(raw, mistakes)
    bad = _NOT_YAML.search(text)
    if bad:
        mark = _mark(text, bad.start())
        code = f"U+{ord(bad[0]):04X}"
        raise mistakes.refuse(mark, f"the character {code} is not allowed in YAML", "remove it")
    return text


def _read_bytes(path: Path, mistakes: Mistakes) -> bytes:
    if (
        path.exists() and not path.is_file() and not path.is_dir()
    ):  # opening a pipe waits for one who writes into it
        text = "this is no regular file but a pipe, a socket or a device"
        raise mistakes.refuse(TOP, text, f"give the path of a {mistakes.noun} file")
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        text, fix = "there is no such file", f"give the path of a {mistakes.noun} file"
    except IsADirectoryError:
        text, fix = "this is a directory", f"give the path of a {mistakes.noun} file in it"
    except PermissionError:
        text, fix = "the file may not be read by this user", "chmod +r"
    except (OSError, ValueError) as error:
        text, fix = f"the file cannot be read: {error}", ""
    raise mistakes.refuse(TOP, text, fix)


def _decode(raw: bytes, mistakes: Mistakes) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        start = error.start if raw[:3] != b"\xef\xbb\xbf" else error.start + 3
        before = raw[:start].decode("utf-8", "replace").removeprefix("\ufeff")
        byte = raw[start]
        text = f"byte 0x{byte:02X} is not UTF-8"
        if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
            text += ", the file looks like UTF-16"
        elif byte >= 0xA0:
            text += f"; as Latin-1 it would be U+{byte:04X} '{chr(byte)}'"
        raise mistakes.refuse(_mark(before, len(before)), text, "save the file as UTF-8") from None


def _mark(text: str, offset: int) -> Mark:
    before = text[:offset].replace("\r\n", "\n").replace("\r", "\n")
    return Mark(before.count("\n") + 1, len(before) - before.rfind("\n"))
