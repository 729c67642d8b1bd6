"""libamp for Python: automatic mixed precision on CPUs. docs/python.md of the project is the manual.

    import amp
    with amp.autocast("cpu"):
        y = amp.linear(x, w, b).gelu()
"""
from amp import _ops, optim
from amp._amp import (DtypeError, Error, FileError, Generator, GradScaler, InvalidError, NotImplementedYet, OutOfMemoryError,
                      Tensor, __version__, bfloat16, bool, complex64, complex128, dtype, float16, float32, float64,
                      get_autocast_dtype, get_num_threads, int8, int16, int32, int64, is_autocast_enabled, is_grad_enabled,
                      manual_seed, memory_statistics, set_num_threads, uint8)
from amp._ops import *
from amp._files import Graph, load, load_file, load_metadata, save_file
from amp._modes import autocast, enable_grad, explain, label, no_grad
from amp._tensor import from_dlpack, from_numpy, tensor
from amp._train import clip_grad_norm_, clip_grad_value_, grad

__all__ = ["DtypeError", "Error", "FileError", "Generator", "GradScaler", "Graph", "InvalidError", "NotImplementedYet",
           "OutOfMemoryError", "Tensor", "__version__", "autocast", "bfloat16", "bool", "clip_grad_norm_", "clip_grad_value_",
           "complex128", "complex64", "dtype", "enable_grad", "explain", "float16", "float32", "float64", "from_dlpack",
           "from_numpy", "get_autocast_dtype", "get_num_threads", "grad", "int16", "int32", "int64", "int8",
           "is_autocast_enabled", "is_grad_enabled", "label", "load", "load_file", "load_metadata", "manual_seed",
           "memory_statistics", "no_grad", "optim", "save_file", "set_num_threads", "tensor", "uint8"]
__all__ += _ops.__all__
