#!/usr/bin/env python3
"""Generates tug/_build.py, with the version of the package and the system libraries that libtug.so needs.

    python3 build_info.py CMAKELISTS LIBRARY OUTPUT

SPDX-License-Identifier: Apache-2.0
"""

import pathlib
import re
import subprocess
import sys


def version_of(cmakelists):
    """Returns the version of the project, which only CMakeLists.txt has."""
    text = pathlib.Path(cmakelists).read_text(encoding="utf-8")
    return re.search(r"project\(tug VERSION (\S+)", text).group(1)


def needed_by(library):
    """Returns the names of the shared libraries that a library is linked with (readelf of binutils)."""
    run = subprocess.run(["readelf", "-d", str(library)], capture_output=True, text=True, check=True)
    return sorted(re.findall(r"\(NEEDED\).*\[(\S+)\]", run.stdout))


def write(cmakelists, library, output):
    """Writes the module."""
    names = ", ".join(f'"{n}"' for n in needed_by(library))
    pathlib.Path(output).write_text(f'VERSION = "{version_of(cmakelists)}"\nNEEDED = [{names}]\n', encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    write(*sys.argv[1:])
