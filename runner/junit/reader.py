"""One report as a stream: which bytes go to the parser, and what its errors mean.

expat and nothing else, so the result does not depend on which other packages are installed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO
from xml.parsers import expat

from runner.errors import BadReport
from runner.junit.handler import Handler
from runner.junit.limits import Caps
from runner.junit.report import tally
from runner.junit.scanned import Scan
from runner.junit.source import Mender, encoding, pieces, take

_REPAIRABLE = {4, 14}  # XML_ERROR_INVALID_TOKEN, XML_ERROR_BAD_CHAR_REF
_CUT_OFF = {3, 5, 6, 20}  # NO_ELEMENTS, UNCLOSED_TOKEN, PARTIAL_CHAR, UNCLOSED_CDATA_SECTION; only at the end


def scan(file: BinaryIO, name: str, caps: Caps) -> Scan:
    """Read one report. Raises :class:`BadReport` with ``name``, line and column."""
    codec, remark = encoding(take(file, name, 512), name)
    plain = codec == "utf-8"
    try:
        result = _parse(pieces(file, name, caps.file_bytes), name, caps, mend_later=True) if plain else None
    except _Mendable:
        result = None
    if result is None:
        result = _mended(file, name, caps, codec)
    if remark:
        result.remarks.insert(0, remark)
    return result


class _Mendable(Exception):
    """The parser met characters that mending may replace."""


def _mended(file: BinaryIO, name: str, caps: Caps, codec: str) -> Scan:
    mender = Mender(codec)
    try:
        result = _parse(mender.mend(pieces(file, name, caps.file_bytes)), name, caps)
    except UnicodeDecodeError as error:
        msg = f"{name}: not {codec} text: {error.reason}"
        raise BadReport(msg, truncated="end" in error.reason or "truncated" in error.reason) from error
    if mender.replaced:
        what = f"{mender.replaced} character{'s' * (mender.replaced > 1)} that XML cannot hold"
        result.remarks.insert(0, f"report repaired: {what} replaced, the first at {mender.first}")
    return result


def _parse(source: Iterator[bytes], name: str, caps: Caps, *, mend_later: bool = False) -> Scan:
    """One pass. Raises :class:`_Mendable` where ``mend_later`` and a second, mended one may do better."""
    parser = expat.ParserCreate("utf-8")  # outranks the declaration, which is not always true
    parser.buffer_text = True
    handler = Handler(parser, name, caps)
    fed = 0
    try:
        for piece in source:
            parser.Parse(piece, False)
            fed += len(piece)
            if fed - parser.CurrentByteIndex > caps.token_bytes:
                handler.refuse(f"a tag of more than {caps.token_bytes:,} bytes")
            if len(parser.intern) > caps.names:
                handler.refuse(f"more than {caps.names:,} different names of elements and attributes")
        parser.Parse(b"", True)
    except expat.ExpatError as error:
        if mend_later and error.code in _REPAIRABLE:
            raise _Mendable from error
        where = f"{name}:{error.lineno}:{error.offset + 1}"
        cut_off = error.code in _CUT_OFF
        why = expat.ErrorString(error.code)
        what = (
            ("truncated report: " if fed else "truncated report: the file is empty: ")
            if cut_off
            else "not XML: "
        )
        msg = f"{where}: {what}{why}; {handler.scan.partial()}"
        raise BadReport(msg, truncated=cut_off, partial=tally(handler.scan)) from error
    finally:
        handler.detach()
    return handler.finish()
