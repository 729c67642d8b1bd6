"""Networks from ONNX files, and safetensors."""
import os
from typing import Any, Dict, List, Optional, Tuple, Union

from amp import _amp
from amp._amp import Tensor
from amp._tensor import from_numpy
from amp._typing import Array

Path = Union[str, "os.PathLike[str]"]


class Graph(_amp.Graph):
    """A network of an ONNX file. It is called with its inputs by place or by name, and runs in the region that is open. One
    output comes as a tensor, several as a tuple; g.named(…) gives them by name."""

    def __call__(self, *inputs: Array, **named: Array) -> Any:
        outputs = self.run(self._in_order(inputs, named))
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def named(self, *inputs: Array, **named: Array) -> Dict[str, Tensor]:
        """The outputs by name."""
        return dict(zip((name for name, _, _ in self.outputs), self.run(self._in_order(inputs, named))))

    def _in_order(self, inputs: Tuple[Array, ...], named: Dict[str, Array]) -> List[Tensor]:
        names = [name for name, _, _ in self.inputs]
        given = dict(zip(names, inputs))
        unknown = [name for name in named if name not in names]
        twice = [name for name in named if name in given]
        given.update(named)
        missing = [name for name in names if name not in given]
        for wrong, what in ((unknown, "there is no input"), (twice, "given twice: "), (missing, "missing: ")):
            if wrong:
                raise TypeError(f"graph: {what} {', '.join(map(repr, wrong))}; its inputs are {', '.join(map(repr, names))}")
        if len(inputs) > len(names):
            raise TypeError(f"graph: {len(inputs)} inputs were given, it has {len(names)}")
        return [x if isinstance(x, Tensor) else from_numpy(x) for x in (given[name] for name in names)]


def load(path: Path, exact: bool = False, data_folder: Optional[str] = None) -> Graph:
    """A network from an ONNX file. exact: the same bits as calling its ops one by one, nothing is fused. data_folder: one more
    folder that its weights may lie in."""
    return Graph(path, exact, data_folder)


def load_file(path: Path) -> Dict[str, Tensor]:
    """The tensors of a safetensors file by name. They lie in the file's mapping until something writes to them."""
    return _amp.load_file(path)[0]


def load_metadata(path: Path) -> Dict[str, str]:
    """What a safetensors file says of itself, a dict of str."""
    return _amp.load_file(path)[1]


def save_file(tensors: Dict[str, Tensor], path: Path, metadata: Optional[Dict[str, str]] = None) -> None:
    """Writes tensors by name as a safetensors file, whole or not at all."""
    pairs = [text for pair in (metadata or {}).items() for text in pair]
    _amp.save_file(path, list(tensors), list(tensors.values()), pairs)
