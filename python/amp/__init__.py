"""libamp for Python: automatic mixed precision on CPUs. docs/python.md of the project is the manual.

    import amp
    with amp.autocast("cpu"):
        y = amp.linear(x, w, b).gelu()
"""
from amp import optim
from amp._amp import (DtypeError, Error, FileError, Generator, GradScaler, InvalidError, NotImplementedYet, OutOfMemoryError,
                      Tensor, bfloat16, bool, complex64, complex128, dtype, float16, float32, float64, get_autocast_dtype,
                      get_num_threads, int8, int16, int32, int64, is_autocast_enabled, is_grad_enabled, manual_seed,
                      memory_statistics, set_num_threads, uint8)
from amp._amp import __version__
from amp._ops import *
from amp._files import Graph, load, load_file, load_metadata, save_file
from amp._modes import autocast, enable_grad, explain, label, no_grad
from amp._tensor import from_dlpack, from_numpy, tensor
from amp._train import clip_grad_norm_, clip_grad_value_, grad
