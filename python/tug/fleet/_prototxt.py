"""Text of a protobuf message, as Paddle prints its PSParameter: read without protobuf, and each field's line is kept.

    server_param { downpour_server_param { downpour_table_param { table_id: 0 table_class: "MemorySparseTable" } } }

Said is one message: its reader takes fields by name and type, and done() refuses those that were not taken.

SPDX-License-Identifier: Apache-2.0
"""

import difflib
import math
import re
from typing import Callable, Dict, Iterator, List, NamedTuple, NoReturn, Optional, Sequence, Tuple, Union

from tug._errors import ArgumentTypeError, DataError

TEXT_MAX = 4 << 20  # characters
DEPTH_MAX = 32
SHOWN_MAX = 60  # characters of the text in an error
_TOKEN = re.compile(r"""(?:[ \t\r\f\v]|\#[^\n]*)*(?:(?P<line>\n)"""
                    r"""|(?P<text>"(?:[^"\\\n]|\\[^\n])*"|'(?:[^'\\\n]|\\[^\n])*')"""
                    r"""|(?P<word>[-+]?[A-Za-z0-9_.][-+A-Za-z0-9_.]*)"""
                    r"""|(?P<mark>[][{}<>:,;])|(?P<end>\Z)|(?P<other>.))""", re.ASCII)
_ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|[xX]([0-9A-Fa-f]{1,2})|(.))")
_PLAIN = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?[fF]?", re.ASCII)
_WHOLE = re.compile(r"[-+]?(?:0[xX][0-9A-Fa-f]{1,16}|[0-9]{1,20})", re.ASCII)


class Token(NamedTuple):
    """A word, a text in quotes, or a mark, and its line."""

    kind: str
    value: str
    line: int


class Field(NamedTuple):
    """NAME: VALUE or NAME { ... }."""

    name: str
    value: Union[Token, "Said"]
    line: int


def _shown(text: str) -> str:
    cut = text if len(text) <= SHOWN_MAX else text[:SHOWN_MAX] + "..."
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in cut)


def _unescaped(quoted: str) -> str:
    def one(m: "re.Match[str]") -> str:
        octal, hexadecimal, other = m.groups()
        if octal or hexadecimal:
            return chr(int(octal, 8) if octal else int(hexadecimal, 16))
        return _PLAIN.get(other, other)

    return _ESCAPE.sub(one, quoted[1:-1])


class _Reader:
    """The tokens of a text, and what they say."""

    def __init__(self, text: str, name: str) -> None:
        self.name, self._tokens = name, self._read(text)
        self._next = next(self._tokens)

    def _read(self, text: str) -> Iterator[Token]:
        at, line = 0, 1
        while True:
            m = _TOKEN.match(text, at)
            assert m is not None and m.lastgroup is not None  # `other` is anything
            kind, value, at = m.lastgroup, m.group(m.lastgroup), m.end()
            if kind == "line":
                line += 1
            elif kind == "other":
                self.refuse(line, f"'{_shown(value)}' stands where a field, a value or a brace is expected")
            elif kind == "end":
                yield Token("end", "the end of the text", line)
                return
            else:
                yield Token(kind, _unescaped(value) if kind == "text" else value, line)

    def refuse(self, line: int, why: str) -> NoReturn:
        """DataError with the line."""
        raise DataError(f"{self.name}: line {line}: {why}")

    def _take(self) -> Token:
        token = self._next
        if token.kind != "end":
            self._next = next(self._tokens)
        return token

    def _is(self, *marks: str) -> bool:
        return self._next.kind == "mark" and self._next.value in marks

    def _value(self) -> Token:
        token = self._take()
        if token.kind == "text":  # neighbours are one text
            parts = [token.value]
            while self._next.kind == "text":
                parts.append(self._take().value)
            return token._replace(value="".join(parts))
        if token.kind != "word":
            self.refuse(token.line, f"a value is expected before '{_shown(token.value)}'")
        return token

    def _field(self, name: Token, depth: int) -> Iterator[Field]:
        colon = self._is(":")
        if colon:
            self._take()
        if self._is("["):
            self._take()
            while not self._is("]"):
                yield self._one(name, True, depth)
                if self._is(","):
                    self._take()
                elif not self._is("]"):
                    self.refuse(self._next.line, f"',' or ']' is expected in the list of '{name.value}'")
            self._take()
        else:
            yield self._one(name, colon, depth)
        if self._is(",", ";"):
            self._take()

    def _one(self, name: Token, colon: bool, depth: int) -> Field:
        if self._is("{", "<"):
            end = "}" if self._take().value == "{" else ">"
            return Field(name.value, Said(self, name.value, self._fields(end, name, depth + 1), name.line), name.line)
        if not colon:
            self.refuse(self._next.line, f"':' or '{{' is expected behind '{_shown(name.value)}'")
        return Field(name.value, self._value(), name.line)

    def _fields(self, end: str, of: Token, depth: int) -> List[Field]:
        if depth > DEPTH_MAX:
            self.refuse(of.line, f"'{_shown(of.value)}' lies more than {DEPTH_MAX} braces deep")
        fields: List[Field] = []
        while not (self._next.kind == "end" if end == "" else self._is(end)):
            name = self._take()
            if name.kind == "end":
                self.refuse(of.line, f"the '{end}' of '{_shown(of.value)}', which begins here, is missing")
            if name.kind != "word":
                self.refuse(name.line, f"the name of a field is expected in place of '{_shown(name.value)}'")
            fields.extend(self._field(name, depth))
        self._take()
        return fields

    def all(self) -> "Said":
        """The whole text."""
        return Said(self, "the text", self._fields("", self._next, 0), 1)


class Said:
    """A message: fields by name. Taken ones are gone."""

    def __init__(self, reader: _Reader, name: str, fields: Sequence[Field], line: int) -> None:
        self.reader, self.name, self.line = reader, name, line
        self._left: Dict[str, List[Field]] = {}
        for one in fields:
            self._left.setdefault(one.name, []).append(one)
        self._known: List[str] = []

    def refuse(self, field: Field, why: str) -> NoReturn:
        """DataError with the field's line."""
        self.reader.refuse(field.line, f"{field.name}{self._as_said(field)}: {why}")

    @staticmethod
    def _as_said(field: Field) -> str:
        if isinstance(field.value, Said):
            return " {...}"
        return f": {_shown(field.value.value)}"

    def many(self, name: str) -> List[Field]:
        """All fields of a name."""
        self._known.append(name)
        return self._left.pop(name, [])

    def one(self, name: str) -> Optional[Field]:
        """The field, which may be there once."""
        fields = self.many(name)
        if len(fields) > 1:
            self.refuse(fields[1], f"is there twice in {self.name}; line {fields[0].line} has the other")
        return fields[0] if fields else None

    def _scalar(self, field: Field, kind: str) -> Token:
        if isinstance(field.value, Said):
            self.refuse(field, f"must be {kind}")
        return field.value

    def words(self, name: str) -> List[str]:
        """Texts or words, as many as there are."""
        return [self._scalar(one, "a text").value for one in self.many(name)]

    def word(self, name: str, default: str = "") -> str:
        """A text or a word."""
        field = self.one(name)
        return default if field is None else self._scalar(field, "a text").value

    def whole_of(self, field: Field, low: int, high: int) -> int:
        """A field's value as a whole number."""
        token = self._scalar(field, "a whole number")
        if token.kind != "word" or _WHOLE.fullmatch(token.value) is None:
            self.refuse(field, "must be a whole number")
        value = int(token.value, 16 if "x" in token.value.lower() else 10)
        if not low <= value <= high:
            self.refuse(field, f"is not from {low} to {high}")
        return value

    def whole(self, name: str, default: int, low: int, high: int) -> int:
        """A whole number."""
        field = self.one(name)
        return default if field is None else self.whole_of(field, low, high)

    def _real_of(self, field: Field) -> float:
        token = self._scalar(field, "a number")
        if token.kind != "word" or _NUMBER.fullmatch(token.value) is None:
            self.refuse(field, "must be a number")
        value = float(token.value.rstrip("fF"))
        if not math.isfinite(value) or abs(value) > 3e38:
            self.refuse(field, "is too large for a float")
        return value

    def reals(self, name: str) -> List[float]:
        """Numbers, as many as there are."""
        return [self._real_of(one) for one in self.many(name)]

    def real(self, name: str, default: Optional[float] = None) -> Optional[float]:
        """A number."""
        field = self.one(name)
        return default if field is None else self._real_of(field)

    def flag(self, name: str, default: Optional[bool] = None) -> Optional[bool]:
        """true or false."""
        field = self.one(name)
        if field is None:
            return default
        said = self._scalar(field, "true or false").value
        if said not in ("true", "True", "t", "1", "false", "False", "f", "0"):
            self.refuse(field, "must be true or false")
        return said in ("true", "True", "t", "1")

    def message(self, name: str) -> Optional["Said"]:
        """NAME { ... }."""
        field = self.one(name)
        return None if field is None else self._message_of(field)

    def _message_of(self, field: Field) -> "Said":
        if not isinstance(field.value, Said):
            self.refuse(field, f"must be {field.name} {{ ... }}")
        return field.value

    def messages(self, name: str) -> List["Said"]:
        """As many as there are."""
        return [self._message_of(one) for one in self.many(name)]

    def pick(self, name: str, default: str, allowed: Sequence[str], why: Callable[[str], str]) -> str:
        """A text or word that is one of these; `why`: what others hear."""
        field = self.one(name)
        if field is None:
            return default
        said = self._scalar(field, "a text").value
        if said not in allowed:
            self.refuse(field, why(said))
        return said

    def passed_over(self, *names: str) -> None:
        """Fields that may say what they like."""
        for name in names:
            self.many(name)

    def only(self, name: str, allowed: Tuple[str, ...], why: str) -> None:
        """A field that can only say what is so here."""
        field = self.one(name)
        if field is not None and (isinstance(field.value, Said) or field.value.value not in allowed):
            self.refuse(field, why)

    def never(self, name: str, why: str) -> None:
        """A field that is not had here."""
        for field in self.many(name):
            self.refuse(field, why)

    def done(self) -> None:
        """Refuses the fields that were not taken."""
        for fields in self._left.values():
            near = difflib.get_close_matches(fields[0].name, self._known, 1)
            self.refuse(fields[0], f"{self.name} has no such field here" +
                        (f"; did you mean '{near[0]}'?" if near else f"; it has {', '.join(sorted(set(self._known)))}"))


def read(text: Union[str, bytes], name: str) -> Said:
    """The message that a text is; DataError with a line where it is none. `name`: the argument, for errors."""
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(f"{name}: is not text in UTF-8: {error}; give the message as text_format prints it, not as "
                            "SerializeToString does") from error
    if not isinstance(text, str):
        raise ArgumentTypeError(f"{name}: must be a text, not {type(text).__name__}")
    if len(text) > TEXT_MAX:
        raise DataError(f"{name}: has {len(text)} characters, and can have {TEXT_MAX}")
    return _Reader(text, name).all()
