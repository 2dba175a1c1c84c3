"""Compares Python's description of the C interface with the public headers, as a C compiler reads them, and with the
library's symbols.

SPDX-License-Identifier: Apache-2.0
"""

import ctypes.util
import os
import re
import shutil
import subprocess
import sys

import pytest

import tug
from tug import _library
from tug._abi import ffi


@pytest.fixture(scope="module")
def abi(source):
    sys.path.insert(0, os.path.join(source, "python"))
    import abi as module
    return module


def compiled(source, tmp_path, text):
    """Compiles a C program with the public headers, runs it, and returns its output."""
    cc = shutil.which("cc") or shutil.which("gcc")
    file, program = tmp_path / "program.c", tmp_path / "program"
    file.write_text(text)
    run = subprocess.run([cc, "-std=gnu11", "-Werror", "-I", os.path.join(source, "include"), "-o", program, file,
                          "-Wl,--unresolved-symbols=ignore-all"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return subprocess.run([program], capture_output=True, text=True, check=True).stdout


def includes(abi, source):
    names = [p.name for p in abi.headers(os.path.join(source, "include", "tug"))]
    assert {"tug.h", "table.h", "communicator.h", "kvapp.h"} <= set(names)
    return "#include <stdio.h>\n" + "".join(f'#include "tug/{n}"\n' for n in names)


def test_structs_and_constants(abi, source, tmp_path):
    lines, expected = [], []
    _, structs, unions = ffi.list_types()
    assert not unions
    for name in structs:
        kind = ffi.typeof(f"struct {name}")
        if kind.fields is None:
            continue # an opaque struct has no fields to compare
        lines.append(f'printf("{name} %zu\\n", sizeof(struct {name}));')
        expected.append(f"{name} {ffi.sizeof(kind)}")
        for field, of in kind.fields:
            lines.append(f'printf("{name}.{field} %zu %zu\\n", offsetof(struct {name}, {field}),'
                         f' sizeof(((struct {name} *)0)->{field}));')
            expected.append(f"{name}.{field} {of.offset} {ffi.sizeof(of.type)}")
    names = re.findall(r"\bTUG_[A-Z0-9_]+(?= *[=,}\n])", abi.definition(os.path.join(source, "include", "tug")))
    for name in sorted(set(names)):
        lines.append(f'printf("{name} %d\\n", (int){name});')
        expected.append(f"{name} {getattr(_library.lib, name)}")
    assert len(expected) > 150
    text = includes(abi, source) + "int main(void)\n{\n" + "\n".join(lines) + "\nreturn 0;\n}\n"
    assert compiled(source, tmp_path, text).splitlines() == expected


def test_signatures(abi, source, tmp_path):
    """A compiler accepts cffi's declarations in addition to the headers, so they do not conflict."""
    text = abi.definition(os.path.join(source, "include", "tug"))
    again = [f for f in re.findall(r"^[\w *]+?\b\*?tug_\w+\([^;{}]*\);", text, flags=re.M | re.S)
             if not f.startswith("typedef")]
    functions = set(re.findall(r"\b(tug_\w+)\(", "\n".join(again)))
    assert len(functions) > 60
    compiled(source, tmp_path, includes(abi, source) + "\n".join(again) + "\nint main(void) { return 0; }\n")
    exported = subprocess.run(["nm", "-D", "--defined-only", _library.PATH], capture_output=True, text=True, check=True)
    in_library = {line.split()[-1] for line in exported.stdout.splitlines()}
    assert functions == in_library


def test_a_changed_header_is_seen(abi, tmp_path):
    (tmp_path / "tug.h").write_text("enum tug_x { TUG_A = 1 };\n#define TUG_N 7\nstruct tug_s { int a; };\n"
                                    "TUG_API int tug_f(struct tug_s *s); // a comment; with a (bracket\n"
                                    "static inline int tug_g(int x)\n{\n    return x > 0 ? 1 : 2;\n}\n")
    text = abi.definition(tmp_path)
    assert "int tug_f(struct tug_s *s);" in text and "tug_g" not in text and "comment" not in text
    assert "#define TUG_N 7" in text


def run_python(code, **env):
    return subprocess.run([sys.executable, "-c", code], env={**os.environ, **env}, capture_output=True, text=True)


def test_another_version_is_refused(tmp_path):
    (tmp_path / "other.c").write_text('const char *tug_version(void) { return "9.9.9"; }\n')
    other = tmp_path / "libother.so"
    subprocess.run([shutil.which("cc") or "gcc", "-shared", "-fPIC", "-o", other, tmp_path / "other.c"], check=True)
    run = run_python("import tug", TUG_LIBRARY=str(other))
    assert run.returncode != 0 and f"is tug 9.9.9, but this package is {tug.__version__}" in run.stderr
    run = run_python("import tug", TUG_LIBRARY=str(tmp_path / "nosuch.so"))
    assert run.returncode != 0 and "cannot be loaded from" in run.stderr
    assert tug.__version__ == ffi.string(_library.lib.tug_version()).decode()


def test_info():
    run = subprocess.run([sys.executable, "-m", "tug", "info"], capture_output=True, text=True, check=True)
    needed = re.findall(r"^  (\S+)$", run.stdout, flags=re.M)
    assert run.stdout.startswith(f"tug {tug.__version__}\n") and "libuv.so.1" in needed and "libc.so.6" in needed
    assert ctypes.util.find_library("uv") == "libuv.so.1"
