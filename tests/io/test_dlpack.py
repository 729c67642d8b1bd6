#!/usr/bin/env python3
"""DLPack in both directions against NumPy, through ctypes and the shared library alone.

    tests/io/test_dlpack.py build/release/libamp.so

Exits with 77, which ctest shows as skipped, where NumPy is missing.
"""

import ctypes
import gc
import sys
import unittest

try:
    import numpy as np
except ImportError:
    print("skipped: NumPy is missing")
    sys.exit(77)

VERSION = tuple(int(part) for part in np.__version__.split(".")[:2])
NUMPY_HAS_VERSIONED = VERSION >= (2, 1)
NUMPY_HAS_BOOL = VERSION >= (1, 25)

# libamp's dtypes by enum value, with NumPy's names; bf16 (4) has none there.
DTYPES = {
    1: "float64",
    2: "float32",
    3: "float16",
    5: "int64",
    6: "int32",
    7: "int16",
    8: "int8",
    9: "uint8",
    10: "bool",
    11: "complex64",
    12: "complex128",
}
BF16 = 4
READ_ONLY = 1

amp = ctypes.CDLL(sys.argv.pop(1))
python = ctypes.pythonapi


def declare(name, result, *arguments):
    function = getattr(amp, name)
    function.restype = result
    function.argtypes = arguments


POINTER = ctypes.c_void_p
declare("amp_from_data", POINTER, POINTER, ctypes.c_int, ctypes.c_int, POINTER)
declare("amp_from_memory", POINTER, POINTER, ctypes.c_int, ctypes.c_int, POINTER, POINTER, POINTER, POINTER)
declare("amp_release", None, POINTER)
declare("amp_data", POINTER, POINTER)
declare("amp_data_mut", POINTER, POINTER)
declare("amp_tensor_dtype", ctypes.c_int, POINTER)
declare("amp_tensor_rank", ctypes.c_int, POINTER)
declare("amp_tensor_shape", ctypes.POINTER(ctypes.c_int64), POINTER)
declare("amp_tensor_strides", ctypes.POINTER(ctypes.c_int64), POINTER)
declare("amp_last_error", ctypes.c_char_p)
declare("amp_clear_error", None)
for suffix in ("", "_unversioned"):
    declare("amp_to_dlpack" + suffix, POINTER, POINTER)
    declare("amp_from_dlpack" + suffix, POINTER, POINTER)

python.PyCapsule_New.restype = ctypes.py_object
python.PyCapsule_New.argtypes = [POINTER, ctypes.c_char_p, POINTER]
python.PyCapsule_GetPointer.restype = POINTER
python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
python.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]

# Capsules keep a pointer to their name: these must live on.
NAMES = {"": (b"dltensor_versioned", b"used_dltensor_versioned"), "_unversioned": (b"dltensor", b"used_dltensor")}


class Stats(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t) for name in ("live_bytes", "cached_bytes", "system_allocations", "live_tensors")
    ]


def live_tensors():
    stats = Stats()
    amp.amp_memory_get_statistics(ctypes.byref(stats), ctypes.c_size_t(ctypes.sizeof(stats)))
    return stats.live_tensors


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", POINTER),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager_ctx", POINTER),
        ("deleter", ctypes.CFUNCTYPE(None, POINTER)),
        ("flags", ctypes.c_uint64),
        ("dl_tensor", DLTensor),
    ]


class Unversioned(ctypes.Structure):
    _fields_ = [("dl_tensor", DLTensor), ("manager_ctx", POINTER), ("deleter", ctypes.CFUNCTYPE(None, POINTER))]


def int64s(values):
    return (ctypes.c_int64 * len(values))(*values)


def error():
    message = amp.amp_last_error().decode()
    amp.amp_clear_error()
    return message


class Producer:
    """What np.from_dlpack wants: an object with __dlpack__ and __dlpack_device__."""

    def __init__(self, tensor, suffix):
        self.tensor, self.suffix = tensor, suffix

    def __dlpack__(self, **_):
        managed = getattr(amp, "amp_to_dlpack" + self.suffix)(self.tensor)
        assert managed, error()
        return python.PyCapsule_New(managed, NAMES[self.suffix][0], None)

    def __dlpack_device__(self):
        return (1, 0)


def import_array(array, suffix):
    """A NumPy array as a tensor, its capsule consumed."""
    capsule = array.__dlpack__(max_version=(1, 0)) if suffix == "" else array.__dlpack__()
    fresh, used = NAMES[suffix]
    tensor = getattr(amp, "amp_from_dlpack" + suffix)(python.PyCapsule_GetPointer(capsule, fresh))
    if tensor:
        python.PyCapsule_SetName(capsule, used)
    return tensor


SUFFIXES = ("", "_unversioned") if NUMPY_HAS_VERSIONED else ("_unversioned",)


class DLPack(unittest.TestCase):
    def setUp(self):
        gc.collect()
        self.live = live_tensors()

    def tearDown(self):
        amp.amp_clear_error()
        gc.collect()
        self.assertEqual(live_tensors(), self.live)

    def test_every_dtype_reaches_numpy_without_a_copy(self):
        for suffix in SUFFIXES:
            for dtype, name in DTYPES.items():
                if name == "bool" and not NUMPY_HAS_BOOL:
                    continue
                with self.subTest(dtype=name, suffix=suffix):
                    source = np.arange(6).astype(name).reshape(2, 3)
                    tensor = amp.amp_from_data(source.ctypes.data, dtype, 2, int64s([2, 3]))
                    array = np.from_dlpack(Producer(tensor, suffix))
                    self.assertEqual(array.dtype, np.dtype(name))
                    np.testing.assert_array_equal(array, source)
                    self.assertEqual(array.ctypes.data, amp.amp_data(tensor))
                    amp.amp_release(tensor)
                    np.testing.assert_array_equal(array, source, "the array keeps the storage alive")
                    del array

    def test_every_dtype_comes_from_numpy_without_a_copy(self):
        for suffix in SUFFIXES:
            for dtype, name in DTYPES.items():
                if name == "bool" and not NUMPY_HAS_BOOL:
                    continue
                with self.subTest(dtype=name, suffix=suffix):
                    array = np.arange(6).astype(name).reshape(2, 3)
                    before = sys.getrefcount(array)
                    tensor = import_array(array, suffix)
                    self.assertTrue(tensor, error())
                    self.assertEqual(amp.amp_tensor_dtype(tensor), dtype)
                    self.assertEqual(amp.amp_tensor_rank(tensor), 2)
                    self.assertEqual(amp.amp_tensor_shape(tensor)[:2], [2, 3])
                    self.assertEqual(amp.amp_data(tensor), array.ctypes.data)
                    gc.collect()
                    self.assertGreater(sys.getrefcount(array), before, "the tensor holds the array")
                    amp.amp_release(tensor)
                    self.assertEqual(sys.getrefcount(array), before, "and lets it go")

    def test_strides_survive_both_ways(self):
        base = np.arange(24, dtype=np.float32).reshape(4, 6)
        for array in (base[::-1, ::2], base.T, base[1:3, 4], base[:0], np.broadcast_to(base[0], (3, 6)).copy()[:, 1:]):
            for suffix in SUFFIXES:
                tensor = import_array(array, suffix)
                self.assertTrue(tensor, error())
                rank = array.ndim
                if array.size:
                    self.assertEqual(amp.amp_tensor_strides(tensor)[:rank], [s // 4 for s in array.strides])
                back = np.from_dlpack(Producer(tensor, suffix))
                np.testing.assert_array_equal(back, array)
                if array.size:
                    self.assertEqual(back.ctypes.data, array.ctypes.data)
                amp.amp_release(tensor)
                del back

    def test_scalars_and_empty_tensors(self):
        for array in (np.array(7.0), np.zeros((2, 0, 3), np.int16)):
            for suffix in SUFFIXES:
                tensor = import_array(array, suffix)
                self.assertTrue(tensor, error())
                back = np.from_dlpack(Producer(tensor, suffix))
                self.assertEqual((back.shape, back.dtype), (array.shape, array.dtype))
                amp.amp_release(tensor)
                del back

    def test_writes_are_shared(self):
        array = np.zeros(3, np.float32)
        tensor = import_array(array, "_unversioned")
        ctypes.cast(amp.amp_data_mut(tensor), ctypes.POINTER(ctypes.c_float))[1] = 5
        self.assertEqual(array.tolist(), [0, 5, 0])
        amp.amp_release(tensor)

    @unittest.skipUnless(NUMPY_HAS_VERSIONED, "this NumPy cannot hand out read-only arrays")
    def test_read_only_arrays_can_be_read_and_not_written(self):
        array = np.arange(3, dtype=np.float32)
        array.flags.writeable = False
        tensor = import_array(array, "")
        self.assertTrue(tensor, error())
        self.assertEqual(amp.amp_data(tensor), array.ctypes.data)
        self.assertIsNone(amp.amp_data_mut(tensor))
        self.assertIn("read-only", error())
        back = np.from_dlpack(Producer(tensor, ""))
        self.assertFalse(back.flags.writeable)
        self.assertIsNone(amp.amp_to_dlpack_unversioned(tensor))
        self.assertIn("read-only", error())
        amp.amp_release(tensor)
        del back

    def test_versioned_struct_is_dlpack_1(self):
        tensor = amp.amp_from_data(np.ones(2, np.uint16).ctypes.data, BF16, 1, int64s([2]))
        managed = amp.amp_to_dlpack(tensor)
        m = Versioned.from_address(managed)
        self.assertEqual((m.major, m.minor, m.flags), (1, 0, 0))
        t = m.dl_tensor
        self.assertEqual((t.device_type, t.ndim, t.code, t.bits, t.lanes), (1, 1, 4, 16, 1), "bfloat has code 4")
        self.assertEqual((t.shape[0], t.strides[0], t.byte_offset), (2, 1, 0))
        amp.amp_release(tensor)
        m.deleter(managed)

    def test_byte_offset_and_absent_strides(self):
        data = np.arange(10, dtype=np.int32)
        calls = []
        deleter = ctypes.CFUNCTYPE(None, POINTER)(calls.append)
        shape = int64s([2, 3])
        m = Unversioned(
            dl_tensor=DLTensor(
                data=data.ctypes.data, device_type=1, ndim=2, code=0, bits=32, lanes=1, shape=shape, byte_offset=8
            ),
            deleter=deleter,
        )
        tensor = amp.amp_from_dlpack_unversioned(ctypes.addressof(m))
        self.assertTrue(tensor, error())
        self.assertEqual(amp.amp_data(tensor), data.ctypes.data + 8)
        self.assertEqual(amp.amp_tensor_strides(tensor)[:2], [3, 1])
        self.assertEqual(calls, [])
        amp.amp_release(tensor)
        self.assertEqual(calls, [ctypes.addressof(m)], "called once")

    def test_what_does_not_fit_is_refused_and_stays_the_callers(self):
        data = np.zeros(64, np.uint8)
        good = dict(data=data.ctypes.data, device_type=1, ndim=1, code=2, bits=32, lanes=1)
        cases = [
            (dict(device_type=10), [2], "DLPack device 10"),
            (dict(device_type=2), [2], "cuda"),
            (dict(bits=8), [2], "8-bit float"),
            (dict(lanes=4), [2], "4 lanes"),
            (dict(code=99), [2], "unknown"),
            (dict(ndim=9), [1] * 9, "9 dimensions"),
            (dict(ndim=-1), [2], "-1 dimensions"),
            (dict(data=None), [2], "data is NULL"),
            (dict(byte_offset=2), [2], "not aligned"),
            ({}, [-1], "negative"),
            (dict(ndim=2), [2**62, 4], "more elements"),
        ]
        for change, shape, part in cases:
            with self.subTest(part):
                calls = []
                deleter = ctypes.CFUNCTYPE(None, POINTER)(calls.append)
                m = Versioned(major=1, deleter=deleter, dl_tensor=DLTensor(**{**good, **change}, shape=int64s(shape)))
                self.assertIsNone(amp.amp_from_dlpack(ctypes.addressof(m)))
                self.assertIn(part, error())
                self.assertEqual(calls, [])
        m = Versioned(major=2, dl_tensor=DLTensor(**good, shape=int64s([2])))
        self.assertIsNone(amp.amp_from_dlpack(ctypes.addressof(m)))
        self.assertIn("DLPack 2.0", error())
        for suffix in ("", "_unversioned"):
            self.assertIsNone(getattr(amp, "amp_from_dlpack" + suffix)(None))
            self.assertIn("NULL", error())
            self.assertIsNone(getattr(amp, "amp_to_dlpack" + suffix)(None))
            self.assertIn("NULL", error())


if __name__ == "__main__":
    print(f"NumPy {np.__version__}, {'versioned and unversioned' if NUMPY_HAS_VERSIONED else 'unversioned'} structs")
    unittest.main()
