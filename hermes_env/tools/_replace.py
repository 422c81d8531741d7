"""``str_replace`` and ``insert`` as pure functions from bytes to an edit.

The old text must be in the file exactly once, overlapping places counted. LF, CR LF and CR are
taken as equal in the search; what is written gets the first terminator of the file, and only the
bytes that differ between old and new text are replaced. The new text is literal: no ``$``, no
backslash is special.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn

from hermes_env.tools._find import Place, find_lenient, find_places, near_match, pasted_numbers
from hermes_env.tools._problem import Candidate, EditError, ErrorCode, Problem
from hermes_env.tools._splice import Edit, Splice, common_prefix, common_suffix
from hermes_env.tools._text import UTF8_BOM, Document, split_lines, to_bytes
from hermes_env.tools._texts import Dialect, texts_for

if TYPE_CHECKING:
    from collections.abc import Sequence

_MAX_LISTED: Final = 50


def str_replace(
    data: bytes | None,
    old: str,
    new: str,
    *,
    path: str = "the file",
    replace_all: bool = False,
    expected_count: int | None = None,
    lenient: bool = False,
    encoding: str | None = None,
    dialect: Dialect = "anthropic",
) -> Edit:
    """Replace ``old`` by ``new`` in the bytes of a file.

    Args:
        data: The file; None if it is proven not to exist.
        old: What to find; empty only to create an absent file.
        new: What to write instead, literally.
        path: The caller's name of the file, for messages.
        replace_all: Replace every place instead of asking for exactly one.
        expected_count: Replace every place if there are exactly so many.
        lenient: If the exact text is nowhere, also ignore blanks at line ends and typographic
            punctuation.
        encoding: The encoding of a file that is not UTF-8.
        dialect: Whose documented error texts to use.

    Raises:
        EditError: ``not_found``, ``already_exists``, ``context_not_found``, ``ambiguous_match``,
            ``invalid_argument`` or ``encoding_unsupported``.
    """
    texts = texts_for(dialect)
    if data is None:
        if old:
            _fail("not_found", texts.file_not_found(path), path)
        return _whole(b"", to_bytes(new, None, encoding))
    if not old:
        _fail(
            "already_exists",
            "old text is empty, which only creates a file that does not exist",
            path,
        )
    if old == new:
        _fail("invalid_argument", texts.same, path)
    document = _document(data, path)
    needle = _encoded(old, document, path, encoding, written=False)
    value = _encoded(new, document, path, encoding, written=True)
    places, total = find_places(document, needle)
    if not places and lenient:
        places = find_lenient(document, needle)
        total = len(places)
    if not places:
        _not_found(document, needle, old, path, texts.no_match(path, old))
    wanted = expected_count if expected_count is not None else (None if replace_all else 1)
    if wanted is not None and total != wanted:
        _wrong_count(document, places, path, texts.many(path, old, total), expected_count)
    return Edit(data, _splices(document, places, value))


def _encoded(text: str, document: Document, path: str, encoding: str | None, *, written: bool) -> bytes:
    """Return a text with LF ends and without a BOM that the file has already."""
    try:
        data = _plain(to_bytes(text, document if written else None, encoding))
    except EditError as error:
        raise EditError(error.problem.at(path=path)) from error
    return data.removeprefix(UTF8_BOM) if document.bom else data


def _plain(data: bytes) -> bytes:
    return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _document(data: bytes, path: str) -> Document:
    try:
        return Document(data)
    except EditError as error:
        raise EditError(error.problem.at(path=path)) from error


def _whole(before: bytes, after: bytes) -> Edit:
    return Edit(before, (Splice(0, len(before), after),) if after != before else ())


def _fail(code: ErrorCode, message: str, path: str, candidates: tuple[Candidate, ...] = ()) -> NoReturn:
    raise EditError(Problem(code, message, path=path, candidates=candidates))


def _candidate(document: Document, offset: int) -> Candidate:
    line = document.index.line_at(offset)
    return Candidate(line + 1, document.text(line)[:200])


def _not_found(document: Document, needle: bytes, old: str, path: str, documented: str) -> NoReturn:
    bare = pasted_numbers(old)
    if bare is not None and find_places(document, _plain(to_bytes(bare, None, None)))[0]:
        hint = "The old text was pasted with the line numbers of a listing; leave the numbers out."
        _fail("context_not_found", f"{documented}\n{hint}", path)
    hint, candidates = near_match(document, needle)
    _fail("context_not_found", f"{documented}\n{hint}" if hint else documented, path, candidates)


def _wrong_count(
    document: Document, places: Sequence[Place], path: str, documented: str, expected: int | None
) -> NoReturn:
    lines = [document.index.line_at(place.start) + 1 for place in places[:_MAX_LISTED]]
    shown = ", ".join(map(str, lines)) + (", …" if len(places) > _MAX_LISTED else "")
    wanted = f" (expected {expected})" if expected is not None else ""
    candidates = tuple(_candidate(document, place.start) for place in places[:5])
    _fail("ambiguous_match", f"{documented}\nLines: {shown}{wanted}", path, candidates)


def _splices(document: Document, places: Sequence[Place], value: bytes) -> tuple[Splice, ...]:
    splices: list[Splice] = []
    end = 0
    for place in places:
        if place.start < end:
            continue  # Of overlapping places the first is replaced, as in every text editor.
        end = place.end
        splices.append(_trimmed(document, place, value))
    return tuple(splice for splice in splices if document.data[splice.start : splice.end] != splice.new)


def _trimmed(document: Document, place: Place, value: bytes) -> Splice:
    """Replace from the first to the last difference, so that equal lines keep their ends."""
    have = document.data[place.start : place.end]
    eol = document.eol
    if b"\r" not in have:
        head = common_prefix(have, value)
        tail = common_suffix(have, value, skip=head)
        new = value[head : len(value) - tail].replace(b"\n", eol)
        return Splice(place.start + head, place.end - tail, new)
    pieces, wanted = split_lines(have), split_lines(value)
    head = _equal_lines(pieces, wanted)
    tail = _equal_lines(pieces[head:][::-1], wanted[head:][::-1])
    old, new_lines = pieces[head : len(pieces) - tail], wanted[head : len(wanted) - tail]
    start = place.start + sum(len(text) + len(end) for text, end in pieces[:head])
    stop = start + sum(len(text) + len(end) for text, end in old)
    # A line that is only changed keeps its own terminator; lines that come in get the first one of
    # the file.
    ends = [end for _, end in old] if len(old) == len(new_lines) else []
    ends += [eol] * (len(new_lines) - len(ends))
    new = b"".join([text + ((own or eol) if end else b"") for (text, end), own in zip(new_lines, ends, strict=True)])
    return Splice(start, stop, new)


def _equal_lines(have: Sequence[tuple[bytes, bytes]], want: Sequence[tuple[bytes, bytes]]) -> int:
    count = 0
    for (a, a_end), (b, b_end) in zip(have, want, strict=False):
        if a != b or bool(a_end) != bool(b_end):
            break
        count += 1
    return count


def insert(data: bytes, insert_line: int, text: str, *, path: str = "the file", encoding: str | None = None) -> Edit:
    """Insert whole lines after a line.

    Args:
        data: The file.
        insert_line: 0 for the start of the file, k for after line k, up to the number of lines.
        text: What to insert; it gets a final terminator if it has none.
        path: The caller's name of the file, for messages.
        encoding: The encoding of a file that is not UTF-8.

    Raises:
        EditError: ``invalid_argument`` for a line outside the file, ``encoding_unsupported``.
    """
    document = _document(data, path)
    lines = document.lines
    if not 0 <= insert_line <= lines:
        message = (
            f"Invalid `insert_line` parameter: {insert_line}. It should be within the range of "
            f"lines of the file: [0, {lines}]"
        )
        _fail("invalid_argument", message, path)
    value = _encoded(text, document, path, encoding, written=True)
    if not value:
        return Edit(data, ())
    value = (value if value.endswith(b"\n") else value + b"\n").replace(b"\n", document.eol)
    offset = document.index.offset_of(insert_line)
    if insert_line == lines and document.open_ended:
        value = document.eol + value
    return Edit(data, (Splice(offset, offset, value),))
