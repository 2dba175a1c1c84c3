"""Installs the package with pip from a checkout into an empty environment, as users do, and uses it.

setup.py builds the library once more with CMake, without optimization, which is quicker.

SPDX-License-Identifier: Apache-2.0
"""

import os
import re
import shutil
import subprocess
import sys
import venv

import pytest

COPIED = ("CMakeLists.txt", "bench", "cmake", "include", "python", "src")
USE = """
import numpy as np, os, tug
with tug.local() as client:
    table = client.table("w", dim=2, rule="sum")
    table.push(np.array([1, 1]), np.ones((2, 2), np.float32))
    print(table.pull([1])[0, 0], os.path.dirname(tug.__file__))
"""
TYPED = """
import numpy as np
import tug

with tug.local() as client:
    table = client.table("w", dim=2)
    rows = table.pull(np.array([1], np.uint64))
    reveal_type(rows)
    table.pull(keys=[1], out="nothing")
"""


def run(*words, **more):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, **more)
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def environment(source, tmp_path_factory):
    """A virtual environment in which the package was installed from a copy of the checkout."""
    top = tmp_path_factory.mktemp("install")
    for name in COPIED:
        here, there = os.path.join(source, name), top / "checkout" / name
        if os.path.isdir(here):
            shutil.copytree(here, there, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info", "build-*"))
        else:
            there.parent.mkdir(exist_ok=True)
            shutil.copy2(here, there)
    venv.create(top / "env", system_site_packages=True, with_pip=True)
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "TUG_LIBRARY")}
    env["CMAKE_ARGS"] = "-DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG=-O0"
    run(top / "env" / "bin" / "python", "-m", "pip", "install", "--no-index", "--no-build-isolation",
        top / "checkout" / "python", env=env, cwd=top)
    return top, env


def test_it_is_used(environment):
    top, env = environment
    value, where = run(top / "env" / "bin" / "python", "-c", USE, env=env, cwd=top).split()
    assert value == "2.0" and where.startswith(str(top / "env"))
    files = os.listdir(where)
    assert {"libtug.so", "_abi.py", "_build.py", "py.typed"} <= set(files)


def test_the_readme(environment, source):
    """The program of the README runs unchanged, without optional packages."""
    top, env = environment
    optional = ["matplotlib", "pandas", "pyarrow", "scipy", "sklearn", "torch"]
    hidden = f"import sys; sys.modules.update(dict.fromkeys({optional}))"
    with open(os.path.join(source, "README.md"), encoding="utf-8") as page:
        programs = re.findall(r"^```python\n(.*?)^```", page.read(), flags=re.M | re.S)
    assert programs
    for i, program in enumerate(programs):
        (top / str(i)).mkdir()
        run(top / "env" / "bin" / "python", "-c", f"{hidden}\n{program}", env=env, cwd=top / str(i))
    done = subprocess.run([top / "env" / "bin" / "python", "-c", f"{hidden}\nimport tug.sklearn"], env=env, cwd=top,
                          capture_output=True, text=True)
    assert done.returncode == 1 and "tug.sklearn needs scikit-learn, which is not installed" in done.stderr


def test_the_wheel_says_what_it_needs(environment, source):
    top, env = environment
    said = run(top / "env" / "bin" / "python", "-m", "tug", "info", env=env, cwd=top)
    needed = re.findall(r"^  (\S+)$", said, flags=re.M)
    with open(os.path.join(source, "docs", "python.md"), encoding="utf-8") as page:
        documented = set(re.findall(r"`(\S+\.so\.\d+)`", page.read()))
    assert needed and {n for n in needed if not n.startswith("ld-linux")} == documented
    tags = run(top / "env" / "bin" / "python", "-c", "from importlib.metadata import distribution as d\n"
               "print(d('tug').read_text('WHEEL'))", env=env, cwd=top)
    assert re.search(r"Tag: py3-none-linux_\w+", tags) and "Root-Is-Purelib: false" in tags


def test_its_types_are_seen(environment):
    mypy = shutil.which("mypy", path="/usr/bin")
    if mypy is None:
        pytest.skip("mypy is not there: mypy")
    top, env = environment
    (top / "program.py").write_text(TYPED)
    done = subprocess.run([mypy, "--strict", "--python-executable", top / "env" / "bin" / "python", "program.py"],
                          env=env, cwd=top, capture_output=True, text=True)
    assert 'Revealed type is "numpy.ndarray[Any, numpy.dtype[numpy.floating[numpy._typing._32Bit]]]"' in done.stdout
    assert 'Argument "out" to "pull" of "Table" has incompatible type "str"' in done.stdout
    assert "Found 1 error" in done.stdout, done.stdout


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))


def test_a_python_without_packages(source):
    """setup.py reports, before it builds anything, which packages the interpreter lacks."""
    done = subprocess.run([sys.executable, "-S", "-I", "setup.py", "--version"], cwd=os.path.join(source, "python"),
                          capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and done.stderr.count("\n") == 1, done.stderr
    assert sys.executable in done.stderr and "lacks setuptools, wheel, cffi, numpy" in done.stderr
