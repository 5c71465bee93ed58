"""The library, found and declared."""
import ctypes
import os
import pathlib
from typing import Dict, Type

from . import _errors

ABI = 2
OK, DONE, TIMEOUT, NO_MEAN = 0, 1, 2, 9
ERRORS: Dict[int, Type[_errors.GossamerError]] = {
    3: _errors.BadInput, 4: _errors.PeerLost, 5: _errors.Diverged, 6: _errors.Interrupted, 7: _errors.Misuse}


class Tensor(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("shape", ctypes.POINTER(ctypes.c_size_t)), ("dimensions", ctypes.c_size_t),
                ("initial", ctypes.c_void_p), ("state", ctypes.c_int)]


class Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("session", ctypes.c_uint64), ("steps_per_epoch", ctypes.c_uint64),
                ("rows", ctypes.c_uint64), ("labels", ctypes.c_void_p), ("checkpoints", ctypes.c_char_p), ("resume", ctypes.c_char_p),
                ("join", ctypes.c_char_p), ("address", ctypes.c_char_p), ("log", ctypes.c_char_p), ("own_steps", ctypes.c_int),
                ("kept", ctypes.POINTER(Tensor)), ("kept_count", ctypes.c_size_t), ("alike", ctypes.c_char_p),
                ("alike_steps", ctypes.c_char_p)]


class Progress(ctypes.Structure):
    _fields_ = [("round", ctypes.c_uint64), ("peers", ctypes.c_uint64), ("epoch", ctypes.c_double), ("share_done", ctypes.c_double),
                ("loss", ctypes.c_double), ("rows_per_second", ctypes.c_double), ("bytes_out_per_second", ctypes.c_double),
                ("bytes_in_per_second", ctypes.c_double), ("staleness", ctypes.c_double), ("skipped_steps", ctypes.c_uint64),
                ("held_back", ctypes.c_uint64), ("queued_bytes", ctypes.c_uint64)]


GradientFunction = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint64, ctypes.POINTER(ctypes.c_uint32),
                                    ctypes.c_size_t, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_void_p),
                                    ctypes.POINTER(ctypes.c_double))
ReportFunction = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_double, ctypes.POINTER(Progress))


class Simulation(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("gradient", GradientFunction), ("report", ReportFunction), ("context", ctypes.c_void_p),
                ("seed", ctypes.c_uint64), ("peers", ctypes.c_uint64), ("steps_per_epoch", ctypes.c_uint64), ("rows", ctypes.c_uint64),
                ("labels", ctypes.c_void_p)]


class Ending(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("rounds", ctypes.c_uint64), ("rows", ctypes.c_uint64), ("loss", ctypes.c_double),
                ("bytes_out", ctypes.c_uint64), ("bytes_in", ctypes.c_uint64), ("virtual_seconds", ctypes.c_double),
                ("digest", ctypes.c_uint64)]


def _load() -> ctypes.CDLL:
    beside = pathlib.Path(__file__).resolve().parent / "libgossamer.so"
    named = os.environ.get("GOSSAMER_LIBRARY")
    places = [named] if named else [str(beside), "libgossamer.so.1"]
    said = []
    for place in places:
        try:
            return ctypes.CDLL(place)
        except OSError as error:
            said.append(str(error))
    raise ImportError("libgossamer.so was not found; run deploy/install-python, or name it by GOSSAMER_LIBRARY ("
                      + "; ".join(said) + ")")


_SIZE, _POINTER, _TEXT = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_char_p
_TAKES = {
    "gs_open": [_TEXT, ctypes.POINTER(_TEXT), _SIZE, _TEXT, ctypes.POINTER(Tensor), _SIZE, ctypes.POINTER(Options), ctypes.POINTER(_POINTER)],
    "gs_wait": [_POINTER, ctypes.c_double],
    "gs_wait_mean": [_POINTER, ctypes.c_double],
    "gs_steps_by_mean": [_POINTER],
    "gs_batch": [_POINTER, ctypes.c_uint64, _POINTER, _SIZE, ctypes.POINTER(_SIZE)],
    "gs_ready": [_POINTER, _SIZE],
    "gs_post": [_POINTER, ctypes.c_double, _SIZE],
    "gs_report": [_POINTER, ctypes.POINTER(Progress), _SIZE],
    "gs_interrupt": [_POINTER],
    "gs_save": [_POINTER, _TEXT],
    "gs_end": [_POINTER],
    "gs_remember": [_POINTER, _TEXT, _SIZE],
    "gs_simulate": [_TEXT, ctypes.POINTER(_TEXT), _SIZE, ctypes.POINTER(Tensor), _SIZE, ctypes.POINTER(Simulation), ctypes.POINTER(_POINTER)],
    "gs_simulated_end": [_POINTER, _SIZE, ctypes.POINTER(Ending), _SIZE],
}

lib = _load()
lib.gs_abi.restype = ctypes.c_int
lib.gs_error.restype = lib.gs_version.restype = _TEXT
lib.gs_close.restype, lib.gs_close.argtypes = None, [_POINTER]
lib.gs_remembered.restype, lib.gs_remembered.argtypes = _POINTER, [_POINTER, ctypes.POINTER(_SIZE)]
lib.gs_members.restype, lib.gs_members.argtypes = _TEXT, [_POINTER]
lib.gs_simulated_peers.restype, lib.gs_simulated_peers.argtypes = _SIZE, [_POINTER]
lib.gs_simulated_parameters.restype, lib.gs_simulated_parameters.argtypes = _POINTER, [_POINTER, _SIZE, _SIZE]
lib.gs_simulated_free.restype, lib.gs_simulated_free.argtypes = None, [_POINTER]
for _name in ("gs_step", "gs_steps_per_epoch"):
    getattr(lib, _name).restype, getattr(lib, _name).argtypes = ctypes.c_uint64, [_POINTER]
for _name in ("gs_parameters", "gs_gradient", "gs_changing", "gs_kept"):
    getattr(lib, _name).restype, getattr(lib, _name).argtypes = _POINTER, [_POINTER, _SIZE]
for _name, _takes in _TAKES.items():
    getattr(lib, _name).restype, getattr(lib, _name).argtypes = ctypes.c_int, _takes
if lib.gs_abi() != ABI:
    raise ImportError(f"the library's interface has number {lib.gs_abi()}, expected {ABI}: install library and package from the same version")


def version() -> str:
    text: bytes = lib.gs_version()
    return text.decode()


def checked(status: int) -> int:
    """OK, DONE, TIMEOUT or NO_MEAN; raises what every other status stands for."""
    if status in (OK, DONE, TIMEOUT, NO_MEAN):
        return status
    raise ERRORS.get(status, _errors.Failed)(lib.gs_error().decode(errors="replace"))
