"""From a path to bytes that the parser takes: opening without surprises, encodings, and mending of bad characters."""

from __future__ import annotations

import codecs
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from runner.errors import BadReport
from runner.junit.text import FORBIDDEN, REFERENCE, REPLACEMENT

CHUNK = 1 << 18
_KINDS = {stat.S_IFIFO: "a FIFO", stat.S_IFDIR: "a directory", stat.S_IFSOCK: "a socket"}
_DECLARED = re.compile(rb"^<\?xml[^>]{0,200}?\sencoding\s*=\s*[\"']([A-Za-z][A-Za-z0-9._-]{0,40})[\"']")
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
    (b"<\0", "utf-16-le"),
    (b"\0<", "utf-16-be"),
)
# Supersets of ASCII that reports are known to come in. Codecs that are no character sets (hex, zip, utf-7) stay out.
_LEGACY = frozenset(
    [f"iso8859-{n}" for n in (*range(1, 12), *range(13, 17))]
    + [f"cp{n}" for n in (437, 850, 852, 866, 874, 932, 936, 949, 950, *range(1250, 1259))]
    + ["koi8-r", "koi8-u", "mac-roman", "gbk", "gb2312", "gb18030", "big5", "shift_jis", "euc_jp", "euc_kr"]
)


def open_report(path: Path, limit: int) -> BinaryIO:
    """Open a regular file of at most ``limit`` bytes; never waits on a FIFO or a device.

    Raises :class:`FileNotFoundError` where there is none, :class:`BadReport` for anything else that cannot be read.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        why = (isinstance(error, OSError) and error.strerror) or str(error)
        msg = f"{path.name}: cannot be opened: {why}"
        raise BadReport(msg) from error
    info = os.fstat(fd)
    if not stat.S_ISREG(info.st_mode):
        os.close(fd)
        msg = f"{path.name}: is {_KINDS.get(stat.S_IFMT(info.st_mode), 'a device')}, not a file"
        raise BadReport(msg)
    if info.st_size > limit:
        os.close(fd)
        msg = f"{path.name}: {info.st_size:,} bytes, more than the {limit:,} that are read"
        raise BadReport(msg)
    return os.fdopen(fd, "rb")


def encoding(head: bytes, name: str) -> tuple[str, str]:
    """The codec of a file by its first bytes and a remark where its declaration is wrong.

    A byte order mark or the form of the first bytes outranks the declaration. Raises :class:`BadReport` for a
    declared encoding that is not known.
    """
    found = _DECLARED.match(head.removeprefix(codecs.BOM_UTF8))
    declared = found[1].decode("ascii") if found else "utf-8"
    try:
        codec = codecs.lookup(declared).name
    except LookupError:
        codec = ""
    for mark, actual in _MARKS:
        if head.startswith(mark):
            lie = found is not None and not (codec and actual.startswith(codec))
            return actual, f"says encoding {declared}, is {actual}: read as {actual}" if lie else ""
    if codec.startswith(("utf-16", "utf-32", "utf-8-sig")):
        return "utf-8", f"says encoding {declared}, but its bytes are not: read as utf-8"
    if codec in {"utf-8", "ascii"}:
        return "utf-8", ""
    if codec not in _LEGACY:
        msg = f"{name}:1:1: unknown encoding {declared!r}: write the report as utf-8"
        raise BadReport(msg)
    return codec, ""


def pieces(file: BinaryIO, name: str, limit: int) -> Iterator[bytes]:
    """The file from its beginning, in pieces; a file that grows past ``limit`` while it is read is refused."""
    size = 0
    file.seek(0)
    while piece := take(file, name, CHUNK):
        size += len(piece)
        if size > limit:
            msg = f"{name}: more than the {limit:,} bytes that are read"
            raise BadReport(msg)
        yield piece


def take(file: BinaryIO, name: str, size: int) -> bytes:
    """The next bytes of the file. Raises :class:`BadReport` where the disk or its driver does not give them."""
    try:
        return file.read(size)
    except OSError as error:
        msg = f"{name}: cannot be read: {error.strerror or error}"
        raise BadReport(msg) from error


class Mender:
    """Decodes pieces, replaces what XML cannot hold by U+FFFD, and gives UTF-8.

    Only characters are replaced, never structure: what stood in a tag's or an attribute's name stays malformed.
    """

    def __init__(self, codec: str) -> None:
        self._codec = codec
        self.replaced = 0
        self.first = ""
        self._line, self._column = 1, 1

    def mend(self, source: Iterator[bytes]) -> Iterator[bytes]:
        """Mended pieces. Raises :class:`UnicodeDecodeError` where the bytes cannot be told apart at all."""
        wide = self._codec.startswith("utf-16")
        decoder = codecs.getincrementaldecoder(self._codec)("surrogatepass" if wide else "surrogateescape")
        held = ""
        for piece in source:
            text = held + decoder.decode(piece)
            amp = text.rfind("&", max(0, len(text) - 24))  # a reference that may go on in the next piece
            held = "" if amp < 0 or ";" in text[amp:] else text[amp:]
            yield self._piece(text[: len(text) - len(held)])
        yield self._piece(held + decoder.decode(b"", final=True))

    def _piece(self, text: str) -> bytes:
        for pattern in (FORBIDDEN, REFERENCE):
            text = pattern.sub(self._replace, text)
        self._line += text.count("\n")
        self._column = len(text) - text.rfind("\n") if "\n" in text else self._column + len(text)
        return text.encode()

    def _replace(self, match: re.Match[str]) -> str:
        whole = match[0]
        if len(whole) > 1:
            code = int(match[1], 16) if match[1] else int(match[2])
            if code <= 0x10FFFF and not FORBIDDEN.match(chr(code)):
                return whole
        self.replaced += 1
        if not self.first:
            before = match.string[: match.start()]
            line = self._line + before.count("\n")
            column = len(before) - before.rfind("\n") if "\n" in before else self._column + len(before)
            self.first = f"{line}:{column}"
        return REPLACEMENT
