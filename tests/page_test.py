#!/usr/bin/env python3
"""Runs the commands of a page as a reader types them, in their order, in one shell and one folder of its own.

    page_test.py ROOT BUILD PAGE [CC CXX]    PAGE: a page of Markdown, or an example, whose first comment has its commands

A command is a line of an indented block whose first word (behind `$ `, if the line has it) is an installed program, or
one of the words in WORDS. A block of code whose first line is a comment with a file's name is written to this file first.
python/tests/test_docs.py runs the blocks of Python without a name. `tests/pages` lists the commands that are not run,
with the reasons, and what must be true after some commands. The last line of the output counts the commands.

Ports that a page names are replaced by free ones, and clusters have a runtime directory of their own, since other
clusters run on the machine.

SPDX-License-Identifier: Apache-2.0
"""

import contextlib
import fnmatch
import importlib.util
import os
import random
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

WORDS = ("export", "for", ".", "wait", "unset")
UNSAFE = re.compile(r"(?:make|sudo|tools/|bench/|build/|cmake|perf|gdb)\b")  # changes the tree or the machine
SKIPS = {"torch": "PyTorch is not there: python3-torch", "sklearn": "scikit-learn is not there: python3-sklearn"}
LIMIT = 150  # seconds for a page
PORT = re.compile(r"(?<=--port[ =])\d{4,5}|(?<=127\.0\.0\.1:)\d{4,5}|(?<=_PORT=)\d{4,5}")
NAME = re.compile(r"^(?:#|//) ([a-z_]+(?:\.(?:py|c|cc|sh|table|yaml))?)$")


def head(path, text):
    """Returns the text of a page; of an example, only its first comment, without the comment marks."""
    if path.endswith(".py"):
        return text[:text.index('"""', text.index('"""') + 3)]
    if path.endswith(".c"):
        return re.sub(r"^// ?", "", re.match(r"(?://.*\n)*", text).group(), flags=re.M)
    return text


def parts(text):
    """Yields (line number, command or None, name of a file or None, text of the file) in the page's order."""
    lines, i = text.split("\n"), 0
    while i < len(lines):
        line = lines[i]
        if line.startswith("```"):
            end = lines.index("```", i + 1)
            name = NAME.match(lines[i + 1])
            if name:
                yield i + 1, None, name.group(1), "\n".join(lines[i + 1:end]) + "\n"
            i = end
        elif re.match(r"    \S", line):
            first = i
            command = line[4:]
            while command.endswith("\\"):
                i += 1
                command = command[:-1] + lines[i].strip()
            yield first + 1, re.sub(r"^\$ ", "", command), None, None
        i += 1


def is_command(command):
    first = re.sub(r"^(?:[A-Z_]+=\S* )+", "", command).split()[0]
    if first in WORDS or re.match(r"(?:[a-z_]+=|\./|env/|build/|bench/|tools/|examples/)", first):
        return True
    return re.match(r"[a-z0-9+_-]+$", first) and shutil.which(first) and not re.match(r"tug [a-z]+: ", command)


def rules_of(root, page):
    """Returns the entries of `tests/pages` for this page: (pattern of a command, word, text)."""
    with open(os.path.join(root, "tests", "pages"), encoding="utf-8") as file:
        lines = [[part.strip() for part in line.split(" | ", 2)] for line in file if line.strip() and line[0] != "#"]
    return [(pattern, *rest.split(None, 1)) for name, pattern, rest in lines if name == page]


def free_ports(numbers):
    """Maps each number to a free port, below the ports that the system gives to outgoing connections."""
    taken = {}
    while len(taken) < len(numbers):
        port = random.randrange(10000, 32000)
        with contextlib.suppress(OSError):
            taken[port] = socket.create_server(("127.0.0.1", port))
    for s in taken.values():
        s.close()
    return dict(zip(numbers, map(str, taken)))


def environment(root, build, work, cc, cxx):
    """Sets the environment as after an installation: the paths of tug, and of python3, cc and pkg-config, which find tug."""
    tools, run = os.path.join(work, "bin"), os.path.join(work, "run")
    os.mkdir(tools)
    os.mkdir(run, 0o700)
    for name, program in (("python3", sys.executable), ("cc", cc), ("c++", cxx)):
        if program:
            os.symlink(program, os.path.join(tools, name))
    for name, more in (("tug", f"Libs: -L{build} -ltug\nCflags: -I{root}/include\n"),
                       ("tug-ps", f"Requires: tug\nCflags: -I{root}/include/tug/compat\nLibs: -pthread\n")):
        with open(os.path.join(tools, name + ".pc"), "w", encoding="utf-8") as file:
            file.write(f"Name: {name}\nDescription: of this build\nVersion: 0\n{more}")
    os.environ.update(PATH=f"{tools}:{build}:{os.environ['PATH']}", PYTHONPATH=f"{build}/python", PYTHONDONTWRITEBYTECODE="1",
                      LD_LIBRARY_PATH=build, PKG_CONFIG_PATH=tools, TUG_WAIT_SECONDS="90", XDG_RUNTIME_DIR=run)


def script_of(page, root, here):
    """Returns the lines of the shell's script, and the commands that it does not run, with the reasons."""
    with open(os.path.join(root, page), encoding="utf-8") as file:
        text = head(page, file.read())
    ports = free_ports(sorted(set(PORT.findall(text))))
    rules, unused, script, left_out = rules_of(root, page), {rule[0] for rule in rules_of(root, page)}, [], []
    for number, command, name, program in parts(text):
        command, program = (re.sub(r"\b\d{4,5}\b", lambda m: ports.get(m.group(), m.group()), t or "") for t in (command, program))
        if name:
            with open(os.path.join(here, name), "w", encoding="utf-8") as file:
                file.write(program)
            continue
        mine = [rule for rule in rules if fnmatch.fnmatchcase(command, rule[0])]
        unused -= {pattern for pattern, _, _ in mine}
        said = {word: text for _, word, text in mine}
        if "since" in said:
            left_out.append((command, said["since"]))
        elif "needs" in said and importlib.util.find_spec(said["needs"]) is None:
            print("skipped: " + SKIPS[said["needs"]])
        elif is_command(command):
            if "with" in said:
                command = re.sub(r"\s+#.*", "", command) + " " + said["with"]
            elif UNSAFE.match(command):
                sys.exit(f"{page}:{number}: tests/pages says of no such command why it is not run: {command}")
            script.append(f"run {number} {shlex.quote(command)} {shlex.quote(said.get('then', 'true'))}")
    if unused:
        sys.exit(f"{page}: tests/pages has commands that the page does not have: {', '.join(unused)}")
    return script, left_out


RUN = """
run() {
    OUT=$WORK/out.$1
    if [ "$2" = wait ]; then
        failed=0
        for job in $(jobs -p); do wait "$job" || failed=1; done
        [ $failed = 0 ]
    else
        eval "$2"
    fi > "$OUT" 2>&1 < /dev/null && eval "$3" && return
    echo "$PAGE:$1: this command failed, or what it printed is not what tests/pages says: $2"
    tail -n 40 "$OUT"
    for other in "$WORK"/out.*; do echo "== ${other##*.}"; tail -n 2 "$other"; done
    exit 1
}
"""


def run(script, page, work):
    """Runs the script and ends the processes that it leaves behind. Returns None, or a sentence about its failure."""
    os.environ.update(WORK=work, PAGE=page)
    shell = subprocess.Popen(["bash", "-c", RUN + "\n".join(script)], cwd=os.path.join(work, "here"), start_new_session=True)
    try:
        return f"its shell ended with {shell.returncode}" if shell.wait(LIMIT) else None
    except subprocess.TimeoutExpired:
        return f"it did not end in {LIMIT} s"
    finally:
        try:
            os.killpg(shell.pid, signal.SIGTERM)
        except ProcessLookupError:
            pass


def main():
    root, build, page, cc, cxx = (sys.argv[1:] + ["", ""])[:5]
    work = tempfile.mkdtemp(prefix="tug-page.")
    try:
        here = os.path.join(work, "here")
        os.mkdir(here)
        environment(root, build, work, cc, cxx)
        for name, folder in (("examples", root + "/examples"), ("bench", root + "/bench"), ("build", build)):
            os.symlink(folder, os.path.join(here, name))
        script, left_out = script_of(page, root, here)
        failed = run(script, page, work) if script else None
        if failed:
            sys.exit(f"{page}: {failed}")
        for command, why in left_out:
            print(f"not run, since {why}: {command}")
        print(f"{page}: {len(script)} commands ran, {len(left_out)} did not")
    finally:
        shutil.rmtree(work, ignore_errors=True)


main()
