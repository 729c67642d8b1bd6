#!/usr/bin/env python3
""".npy files against NumPy itself, both ways, through ctypes and the shared library alone.

    tests/io/test_npy_numpy.py build/release/libamp.so

Exits with 77, which ctest shows as skipped, where NumPy is missing.
"""

import ctypes
import os
import sys
import tempfile
import unittest

try:
    import numpy as np
except ImportError:
    print("skipped: NumPy is missing")
    sys.exit(77)

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
WIDER = {"uint16": "int32", "uint32": "int64", "uint64": "int64"}

amp = ctypes.CDLL(sys.argv.pop(1))
POINTER = ctypes.c_void_p
for name, result, arguments in [
    ("amp_load_npy", POINTER, [ctypes.c_char_p]),
    ("amp_save_npy", ctypes.c_int, [ctypes.c_char_p, POINTER]),
    ("amp_from_memory", POINTER, [POINTER, ctypes.c_int, ctypes.c_int, POINTER, POINTER, POINTER, POINTER]),
    ("amp_release", None, [POINTER]),
    ("amp_data", POINTER, [POINTER]),
    ("amp_tensor_dtype", ctypes.c_int, [POINTER]),
    ("amp_tensor_rank", ctypes.c_int, [POINTER]),
    ("amp_last_error", ctypes.c_char_p, []),
    ("amp_clear_error", None, []),
    ("amp_tensor_shape", ctypes.POINTER(ctypes.c_int64), [POINTER]),
]:
    getattr(amp, name).restype = result
    getattr(amp, name).argtypes = arguments


def int64s(values):
    return (ctypes.c_int64 * len(values))(*values)


def sample(dtype, shape):
    generator = np.random.default_rng(1)
    values = generator.standard_normal(shape) * 100
    values = values + 1j * generator.standard_normal(shape) if dtype.startswith("c") else np.abs(values)
    return np.asarray(values).astype(dtype)


SHAPES = [(), (1,), (7,), (3, 4), (2, 0, 5), (2, 3, 4, 5), (2,) * 8]


class NpyWithNumPy(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = self.folder.name + "/a.npy"

    def tearDown(self):
        amp.amp_clear_error()
        self.folder.cleanup()

    def load(self):
        """The file as libamp reads it: (array, libamp's dtype)."""
        tensor = amp.amp_load_npy(self.path.encode())
        self.assertTrue(tensor, amp.amp_last_error())
        dtype = np.dtype(DTYPES[amp.amp_tensor_dtype(tensor)])
        shape = tuple(amp.amp_tensor_shape(tensor)[: amp.amp_tensor_rank(tensor)])
        count = int(np.prod(shape))
        array = np.frombuffer(ctypes.string_at(amp.amp_data(tensor), count * dtype.itemsize), dtype).reshape(shape)
        amp.amp_release(tensor)
        return array

    def check(self, array):
        back = self.load()
        self.assertEqual(back.dtype.name, WIDER.get(array.dtype.name, array.dtype.name))
        self.assertEqual(back.shape, array.shape)
        np.testing.assert_array_equal(back, array)

    def test_what_numpy_saves_is_loaded(self):
        for dtype in [*DTYPES.values(), *WIDER]:
            for shape in SHAPES:
                array = sample(dtype, shape)
                layouts = [array, np.asfortranarray(array), array.astype(array.dtype.newbyteorder(">")), array.T]
                for layout in layouts:
                    with self.subTest(dtype=dtype, shape=shape, order=layout.dtype.byteorder):
                        np.save(self.path, layout)
                        self.check(layout)

    def test_every_format_version_is_loaded(self):
        for version in [(1, 0), (2, 0), (3, 0)]:
            array = sample("float32", (2, 3))
            with open(self.path, "wb") as file:
                np.lib.format.write_array(file, array, version=version)
            self.check(array)

    def test_numpy_loads_what_we_save(self):
        for dtype, name in DTYPES.items():
            for shape in SHAPES:
                base = sample(name, shape)
                for array in [
                    base,
                    base.T,
                    base[..., ::-1] if base.ndim else base,
                    np.broadcast_to(base, (2,) + shape) if base.ndim < 8 else base,
                ]:
                    with self.subTest(dtype=name, shape=array.shape):
                        strides = int64s([stride // array.itemsize for stride in array.strides])
                        tensor = amp.amp_from_memory(
                            array.ctypes.data, dtype, array.ndim, int64s(array.shape), strides, None, None
                        )
                        self.assertTrue(tensor, amp.amp_last_error())
                        self.assertEqual(amp.amp_save_npy(self.path.encode(), tensor), 0, amp.amp_last_error())
                        amp.amp_release(tensor)
                        back = np.load(self.path)
                        self.assertEqual((back.dtype, back.shape), (array.dtype, array.shape))
                        np.testing.assert_array_equal(back, array)

    def test_our_bytes_are_numpys(self):
        array = sample("float32", (3, 4))
        np.save(self.path, array)
        with open(self.path, "rb") as file:
            numpys = file.read()
        tensor = amp.amp_load_npy(self.path.encode())
        self.assertEqual(amp.amp_save_npy(self.path.encode(), tensor), 0)
        amp.amp_release(tensor)
        with open(self.path, "rb") as file:
            ours = file.read()
        self.assertEqual((len(ours) % 64, ours[-48:]), (len(numpys) % 64, numpys[-48:]))
        self.assertEqual(ours[10:70], numpys[10:70], "the same header text")

    def test_what_is_no_plain_number_is_refused(self):
        for array in [
            np.array(["text"]),
            np.array([object()]),
            np.zeros(2, "f4,i4"),
            np.zeros(2, "M8[s]"),
            np.zeros(2, np.longdouble),
        ]:
            np.save(self.path, array, allow_pickle=True)
            self.assertIsNone(amp.amp_load_npy(self.path.encode()), array.dtype)
            self.assertIn(os.path.basename(self.path), amp.amp_last_error().decode())
            amp.amp_clear_error()


if __name__ == "__main__":
    print(f"NumPy {np.__version__}")
    unittest.main()
