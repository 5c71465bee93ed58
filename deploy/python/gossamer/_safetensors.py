"""Safetensors files of a model's state: what ``load_state_dict`` takes, tied tensors once."""
import json
import math
import operator
import os
import pathlib
from typing import Dict, List, Mapping, Tuple

import torch

from . import _errors
from ._base import Path

_DTYPES = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64", torch.int32: "I32",
           torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL"}
_NAMES = {name: dtype for dtype, name in _DTYPES.items()}
_TIED = "tied:"  # key of the metadata, with a name; its value names the tensor that is the same


def save(path: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    """Write beside and then in place of what is there."""
    metadata = {"format": "pt"}
    header: Dict[str, object] = {"__metadata__": metadata}
    written: Dict[Tuple[object, ...], str] = {}
    parts: List[torch.Tensor] = []
    offset = 0
    for name, tensor in tensors.items():
        if name == "__metadata__":
            raise _errors.BadInput("a tensor is named '__metadata__'; expected another name, as safetensors files use that one themselves")
        if tensor.dtype not in _DTYPES:
            raise _errors.BadInput(f"{name} is of type {tensor.dtype}; expected one of {', '.join(map(str, _DTYPES))}")
        same = (tensor.device, tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tuple(tensor.stride()))
        if tensor.numel() > 0 and same in written:
            metadata[_TIED + name] = written[same]
            continue
        written[same] = name
        size = tensor.numel() * tensor.element_size()
        header[name] = {"dtype": _DTYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [offset, offset + size]}
        parts.append(tensor)
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    to = pathlib.Path(os.fspath(path))
    if to.exists() and not (to.is_file() or to.is_dir()):
        raise _errors.BadInput(f"{to}: is no regular file, and what is written takes its place; expected the name of a file")
    if to.is_symlink():
        to = to.resolve()
    beside = to.with_name(f"{to.name}.{os.getpid()}.part")  # others may write the same
    with open(beside, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in parts:
            file.write(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, to)


def load(path: Path) -> Dict[str, torch.Tensor]:
    """What :func:`save` wrote, or others did; on the CPU."""
    data = bytearray(pathlib.Path(os.fspath(path)).read_bytes())
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 or size > len(data) - 8:
        raise _errors.BadInput(f"{os.fspath(path)}: is no safetensors file: found {len(data)} bytes, and a table of {size}")
    try:
        header = json.loads(data[8:8 + size])
        metadata = header.pop("__metadata__", {})
        tensors = {}
        for name, entry in header.items():
            dtype, shape = _NAMES[entry["dtype"]], [operator.index(length) for length in entry["shape"]]
            begin, end = (operator.index(offset) for offset in entry["data_offsets"])
            expected = math.prod(shape) * torch.empty(0, dtype=dtype).element_size()
            if min(shape, default=0) < 0 or begin < 0 or end - begin != expected or 8 + size + end > len(data):
                raise ValueError(f"{name} of {entry['dtype']}{shape} stands from byte {begin} to {end} of {len(data) - 8 - size}; expected {expected} bytes")
            raw = torch.frombuffer(data, dtype=torch.uint8, count=end - begin, offset=8 + size + begin) if end > begin else torch.empty(0, dtype=torch.uint8)
            tensors[name] = raw.clone().view(dtype).reshape(shape)
        for key, same in metadata.items():
            if key.startswith(_TIED):
                tensors[key[len(_TIED):]] = tensors[same]
    except (AttributeError, KeyError, ValueError, TypeError, RuntimeError) as error:
        raise _errors.BadInput(f"{os.fspath(path)}: is no safetensors file: {error}") from error
    return tensors
