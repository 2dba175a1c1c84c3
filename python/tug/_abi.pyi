# What abi.py makes of the public headers (python/abi.py).
from typing import Any

ffi: Any
