"""What arguments may be, for type checkers."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, Sequence, Union

if TYPE_CHECKING:
    from amp._amp import Tensor


class SupportsDLPack(Protocol):
    """An array of NumPy's, or a tensor of any library that lends its memory."""

    def __dlpack__(self, *, stream: Any = ...) -> Any: ...


Array = Union[SupportsDLPack, "Tensor"]
Number = Union[int, float, complex]
Sizes = Union[int, Sequence[int]]
Factors = Union[float, Sequence[float]]
