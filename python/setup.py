"""Builds libtug.so with CMake into the package. CMAKE_ARGS has further arguments for CMake.

SPDX-License-Identifier: Apache-2.0
"""

import importlib.util
import os
import pathlib
import shlex
import shutil
import subprocess
import sys

# These modules are checked before anything is built. In the isolated environment that pip makes for a build, pip
# installs them itself.
LACKS = [name for name in ("setuptools", "wheel", "cffi", "numpy") if importlib.util.find_spec(name) is None]
if LACKS and not any("pip-build-env" in path for path in sys.path):
    sys.exit(f"tug: {sys.executable} (Python {sys.version.split()[0]}) lacks {', '.join(LACKS)}: run "
             f"'{sys.executable} -m pip install {' '.join(LACKS)}', or take Debian's Python, for which tools/deps "
             "installs them: /usr/bin/python3 -m venv --system-site-packages env")

from setuptools import Distribution, setup  # noqa: E402
from setuptools.command.build_py import build_py  # noqa: E402

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # before setuptools 70.1
    from wheel.bdist_wheel import bdist_wheel

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE))
import abi  # noqa: E402
import build_info  # noqa: E402


class BuildWithLibrary(build_py):
    """Copies the Python files, and builds the library, _abi.py and _build.py beside them."""

    def run(self):
        super().run()
        package = pathlib.Path(self.build_lib) / "tug"
        library = self.build_library()
        shutil.copy2(library, package / "libtug.so")
        abi.write(ROOT / "include" / "tug", package / "_abi.py")
        build_info.write(ROOT / "CMakeLists.txt", library, package / "_build.py")

    def build_library(self):
        build = pathlib.Path(self.get_finalized_command("build").build_temp).resolve() / "cmake"
        generator = ["-G", "Ninja"] if shutil.which("ninja") else []
        for command in (
                ["cmake", *generator, "-S", str(ROOT), "-B", str(build), "-DTUG_TESTS=OFF", "-DTUG_WERROR=OFF",
                 *shlex.split(os.environ.get("CMAKE_ARGS", ""))],
                ["cmake", "--build", str(build), "--target", "tug_shared", "--parallel", str(os.cpu_count() or 1)]):
            try:
                subprocess.run(command, check=True)
            except FileNotFoundError:
                sys.exit("tug: building the library needs cmake: tools/deps installs what is missing")
            except subprocess.CalledProcessError as error:
                sys.exit(f"tug: the library cannot be built ({shlex.join(command)} ended with {error.returncode}); "
                         "tools/deps installs what building needs")
        return (build / "libtug.so").resolve()


class WheelOfPlatform(bdist_wheel):
    """A wheel for any Python 3 on one platform: cffi loads the library at run time, and nothing is linked with
    Python."""

    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        return ("py3", "none", super().get_tag()[2])


class DistributionWithLibrary(Distribution):
    """A distribution with a library, so that it is installed in the directory for platform-specific packages."""

    def has_ext_modules(self):
        return True


setup(
    version=build_info.version_of(ROOT / "CMakeLists.txt"),
    packages=["tug", "tug.fleet"],
    package_data={"tug": ["py.typed", "*.pyi"]},
    cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": WheelOfPlatform},
    distclass=DistributionWithLibrary,
)
