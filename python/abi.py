#!/usr/bin/env python3
"""Generates tug/_abi.py, cffi's description of the C interface, from the public headers.

    python3 abi.py HEADERS OUTPUT       HEADERS: the directory include/tug; OUTPUT: a file _abi.py

The headers are the only declaration of the interface; Python has no copy of its own. setup.py and the build of the
repository run this program.

SPDX-License-Identifier: Apache-2.0
"""

import contextlib
import io
import pathlib
import re
import sys

FIRST = ("tug.h", "table.h")  # the other headers, sorted by name, use the types of these


def headers(directory):
    """Returns the public C headers, each after those that it uses."""
    found = sorted(p for p in pathlib.Path(directory).glob("*.h"))
    return [p for name in FIRST for p in found if p.name == name] + \
           [p for p in found if p.name not in FIRST]


def without_bodies(text):
    """Returns the text without static inline functions, because the library does not export them."""
    while True:
        match = re.search(r"^static inline [^;{]*\{", text, flags=re.M)
        if match is None:
            return text
        depth, at = 1, match.end()
        while depth > 0:
            depth += {"{": 1, "}": -1}.get(text[at], 0)
            at += 1
        text = text[:match.start()] + text[at:]


def declarations(text):
    """Returns the parts of a header that cffi can read: declarations, and macros that are numbers."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)
    text = re.sub(r"^#ifdef __cplusplus.*?^#endif[^\n]*", "", text, flags=re.M | re.S)
    text = without_bodies(text)
    lines = []
    for line in text.replace("\\\n", " ").split("\n"):
        if not line.lstrip().startswith("#"):
            lines.append(line)
        elif re.match(r"\s*#\s*define\s+TUG_[A-Z0-9_]+\s+\(?-?(0x[0-9A-Fa-f]+|\d+)[uUlL]*\)?\s*$", line):
            lines.append(re.sub(r"[()]|[uUlL]+\s*$", "", line))
    text = re.sub(r"\bTUG_API\s+", "", "\n".join(lines))
    return re.sub(r"\n\s*\n+", "\n", text).strip() + "\n"


def definition(directory):
    """Returns the declarations of all headers as one text."""
    return "\n".join(declarations(p.read_text(encoding="utf-8")) for p in headers(directory))


def write(directory, output):
    """Writes the module, atomically, because two builds may do so at the same time."""
    import cffi

    ffi = cffi.FFI()
    ffi.set_source("tug._abi", None)
    ffi.cdef(definition(directory))
    output = pathlib.Path(output)
    beside = output.with_name(output.name + ".new")
    with contextlib.redirect_stdout(io.StringIO()):  # cffi prints what it does
        ffi.emit_python_code(str(beside))
    beside.replace(output)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    write(sys.argv[1], sys.argv[2])
