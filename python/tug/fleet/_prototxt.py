"""Reads the text form of a protobuf message, such as Paddle's PSParameter, without protobuf, and keeps each field's
line for errors.

    server_param { downpour_server_param { downpour_table_param { table_id: 0 table_class: "MemorySparseTable" } } }

An object of Said is one message. Its methods take fields by name and type, and done() refuses the fields that were not
taken.

SPDX-License-Identifier: Apache-2.0
"""

import difflib
import math
import re
from typing import Callable, Dict, Iterator, List, NamedTuple, NoReturn, Optional, Sequence, Tuple, Union

from tug._errors import ArgumentTypeError, DataError

TEXT_MAX = 4 << 20 # the most characters of a text
DEPTH_MAX = 32 # the deepest nesting of messages
SHOWN_MAX = 60  # the most characters of the text that an error quotes
_TOKEN = re.compile(r"""(?:[ \t\r\f\v]|\#[^\n]*)*(?:(?P<line>\n)"""
                    r"""|(?P<text>"(?:[^"\\\n]|\\[^\n])*"|'(?:[^'\\\n]|\\[^\n])*')"""
                    r"""|(?P<word>[-+]?[A-Za-z0-9_.][-+A-Za-z0-9_.]*)"""
                    r"""|(?P<mark>[][{}<>:,;])|(?P<end>\Z)|(?P<other>.))""", re.ASCII)
_ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|[xX]([0-9A-Fa-f]{1,2})|(.))")
_PLAIN = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?[fF]?", re.ASCII)
_WHOLE = re.compile(r"[-+]?(?:0[xX][0-9A-Fa-f]{1,16}|[0-9]{1,20})", re.ASCII)


class Token(NamedTuple):
    """A token: a word, a text in quotes or a mark, with its line."""

    kind: str
    value: str
    line: int


class Field(NamedTuple):
    """A field of a message, NAME: VALUE or NAME { ... }, with its line."""

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
    """Splits a text into tokens, and parses them to messages. `name` is the argument's name, for errors."""

    def __init__(self, text: str, name: str) -> None:
        self.name, self._tokens = name, self._read(text)
        self._next = next(self._tokens)

    def _read(self, text: str) -> Iterator[Token]:
        at, line = 0, 1
        while True:
            m = _TOKEN.match(text, at)
            assert m is not None and m.lastgroup is not None  # the group `other` matches any character
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
        """Raises DataError with the line and the reason `why`."""
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
        if token.kind == "text":  # adjacent texts are joined
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
            self.refuse(self._next.line, f"':' or '{{' is expected after '{_shown(name.value)}'")
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
        """Returns the whole text as a message."""
        return Said(self, "the text", self._fields("", self._next, 0), 1)


class Said:
    """A message: its fields by name. A field can be taken only once."""

    def __init__(self, reader: _Reader, name: str, fields: Sequence[Field], line: int) -> None:
        self.reader, self.name, self.line = reader, name, line
        self._left: Dict[str, List[Field]] = {}
        for one in fields:
            self._left.setdefault(one.name, []).append(one)
        self._known: List[str] = []

    def refuse(self, field: Field, why: str) -> NoReturn:
        """Raises DataError with the field's line, the field and the reason `why`."""
        self.reader.refuse(field.line, f"{field.name}{self._as_said(field)}: {why}")

    @staticmethod
    def _as_said(field: Field) -> str:
        if isinstance(field.value, Said):
            return " {...}"
        return f": {_shown(field.value.value)}"

    def many(self, name: str) -> List[Field]:
        """Takes all fields of a name."""
        self._known.append(name)
        return self._left.pop(name, [])

    def one(self, name: str) -> Optional[Field]:
        """Takes the field of a name, or returns None. Raises DataError if the message has several."""
        fields = self.many(name)
        if len(fields) > 1:
            self.refuse(fields[1], f"is given twice in {self.name}; line {fields[0].line} has the first")
        return fields[0] if fields else None

    def _scalar(self, field: Field, kind: str) -> Token:
        if isinstance(field.value, Said):
            self.refuse(field, f"must be {kind}")
        return field.value

    def words(self, name: str) -> List[str]:
        """Takes the values of all fields of a name, which must be texts or words."""
        return [self._scalar(one, "a text").value for one in self.many(name)]

    def word(self, name: str, default: str = "") -> str:
        """Takes a field whose value is a text or a word."""
        field = self.one(name)
        return default if field is None else self._scalar(field, "a text").value

    def whole_of(self, field: Field, low: int, high: int) -> int:
        """Returns a field's value as a whole number. Raises DataError if it is not from low to high."""
        token = self._scalar(field, "a whole number")
        if token.kind != "word" or _WHOLE.fullmatch(token.value) is None:
            self.refuse(field, "must be a whole number")
        value = int(token.value, 16 if "x" in token.value.lower() else 10)
        if not low <= value <= high:
            self.refuse(field, f"is not from {low} to {high}")
        return value

    def whole(self, name: str, default: int, low: int, high: int) -> int:
        """Takes a field whose value is a whole number from low to high."""
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
        """Takes the values of all fields of a name, which must be numbers."""
        return [self._real_of(one) for one in self.many(name)]

    def real(self, name: str, default: Optional[float] = None) -> Optional[float]:
        """Takes a field whose value is a number."""
        field = self.one(name)
        return default if field is None else self._real_of(field)

    def flag(self, name: str, default: Optional[bool] = None) -> Optional[bool]:
        """Takes a field whose value is true or false."""
        field = self.one(name)
        if field is None:
            return default
        said = self._scalar(field, "true or false").value
        if said not in ("true", "True", "t", "1", "false", "False", "f", "0"):
            self.refuse(field, "must be true or false")
        return said in ("true", "True", "t", "1")

    def message(self, name: str) -> Optional["Said"]:
        """Takes a field whose value is a message, NAME { ... }; returns None if there is none."""
        field = self.one(name)
        return None if field is None else self._message_of(field)

    def _message_of(self, field: Field) -> "Said":
        if not isinstance(field.value, Said):
            self.refuse(field, f"must be {field.name} {{ ... }}")
        return field.value

    def messages(self, name: str) -> List["Said"]:
        """Takes all messages of a name."""
        return [self._message_of(one) for one in self.many(name)]

    def pick(self, name: str, default: str, allowed: Sequence[str], why: Callable[[str], str]) -> str:
        """Takes a field whose value is one of the texts `allowed`. For another value the error has the text
        why(value)."""
        field = self.one(name)
        if field is None:
            return default
        said = self._scalar(field, "a text").value
        if said not in allowed:
            self.refuse(field, why(said))
        return said

    def passed_over(self, *names: str) -> None:
        """Takes fields that have no effect here, whatever their values are."""
        for name in names:
            self.many(name)

    def only(self, name: str, allowed: Tuple[str, ...], why: str) -> None:
        """Takes a field that has no effect here, and refuses it, with the reason `why`, unless its value is in
        `allowed`."""
        field = self.one(name)
        if field is not None and (isinstance(field.value, Said) or field.value.value not in allowed):
            self.refuse(field, why)

    def never(self, name: str, why: str) -> None:
        """Refuses all fields of a name, with the reason `why`."""
        for field in self.many(name):
            self.refuse(field, why)

    def done(self) -> None:
        """Refuses the fields that were not taken."""
        for fields in self._left.values():
            near = difflib.get_close_matches(fields[0].name, self._known, 1)
            self.refuse(fields[0], f"{self.name} has no such field here" +
                        (f"; did you mean '{near[0]}'?" if near else f"; it has {', '.join(sorted(set(self._known)))}"))


def read(text: Union[str, bytes], name: str) -> Said:
    """Parses a text and returns its message. Raises DataError with a line if it is not one. `name` is the argument's
    name, for errors."""
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(f"{name}: is not text in UTF-8: {error}; give the message as text_format prints it, not as "
                            "SerializeToString does") from error
    if not isinstance(text, str):
        raise ArgumentTypeError(f"{name}: must be a text, not {type(text).__name__}")
    if len(text) > TEXT_MAX:
        raise DataError(f"{name}: has {len(text)} characters, more than {TEXT_MAX}")
    return _Reader(text, name).all()
