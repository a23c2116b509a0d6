"""The mono kernels: the weight-reading stages of one MiniMax-M3 MoE layer's decode step, driven by the generated code.

`load` builds them for a backend and returns the launcher. `mono.hip` and `device/` are the kernels, `host/` runs them
without a GPU.
"""

from mono_gen.kernels.launcher import Kernels, load
from mono_gen.kernels.library import KernelFault

__all__ = ["KernelFault", "Kernels", "load"]
