# What the build says of itself (python/setup.py, python/CMakeLists.txt).
from typing import List

VERSION: str
NEEDED: List[str]
