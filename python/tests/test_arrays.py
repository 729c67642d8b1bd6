"""Memory shared with NumPy and through DLPack, both ways; who keeps it alive."""
import ctypes
import gc
import importlib.util
import unittest
import warnings
import weakref

import numpy as np

import amp

TYPES = [np.float64, np.float32, np.float16, np.int64, np.int32, np.int16, np.int8, np.uint8, np.bool_, np.complex64,
         np.complex128]


class NumPy(unittest.TestCase):
    def test_in_without_a_copy(self):
        for dtype in TYPES:
            with self.subTest(dtype=dtype):
                array = np.arange(12).astype(dtype).reshape(3, 4)
                for view in (array, array.T, array[::-1, ::2], array[1:, :0], array[1, 1:2].reshape(())):
                    x = amp.from_numpy(view)
                    self.assertEqual((x.shape, x.dtype.name), (view.shape, np.dtype(dtype).name.rstrip("_")))
                    np.testing.assert_array_equal(x.numpy(), view)
                    if view.size:
                        self.assertEqual(x.data_ptr(), view.ctypes.data)

    def test_out_without_a_copy(self):
        for name in ("float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64"):
            with self.subTest(dtype=name):
                x = amp.ones(3, 4, dtype=getattr(amp, name)).t()
                for array in (x.numpy(), np.asarray(x), np.from_dlpack(x) if name != "bool" else x.numpy()):
                    self.assertEqual((array.shape, array.dtype), ((4, 3), np.dtype(name)))
                    self.assertEqual((array.ctypes.data, array.strides), (x.data_ptr(), (array.itemsize, 4 * array.itemsize)))

    def test_writes_are_seen(self):
        array = np.zeros(3, np.float32)
        x = amp.from_numpy(array)
        array[1] = 5
        x[2] = 7
        self.assertEqual((x.tolist(), array.tolist()), ([0, 5, 7], [0, 5, 7]))
        x.numpy()[0] = 1
        self.assertEqual(array[0], 1)

    def test_writes_in_a_region(self):
        weight = np.ones((4, 4), np.float32)
        w, x = amp.from_numpy(weight), amp.ones(2, 4)
        with amp.autocast("cpu"):
            self.assertEqual(amp.linear(x, w)[0, 0].item(), 4)
            weight[:] = 2
            w.mark_dirty()
            self.assertEqual(amp.linear(x, w)[0, 0].item(), 8)

    def test_read_only(self):
        array = np.zeros(3, np.float32)
        array.flags.writeable = False
        x = amp.from_numpy(array)
        self.assertEqual((x + 1).tolist(), [1, 1, 1])
        self.assertFalse(x.numpy().flags.writeable)
        with self.assertRaisesRegex(amp.Error, "read-only"):
            x.add_(1)

    def test_the_array_lives_as_long_as_the_tensor(self):
        class Array(np.ndarray):
            pass

        array = np.zeros(3, np.float32).view(Array)
        gone = weakref.ref(array)
        x = amp.from_numpy(array)
        view = x[1:]
        del array, x
        gc.collect()
        self.assertIsNotNone(gone())
        del view
        self.assertIsNone(gone())

    def test_the_tensor_lives_as_long_as_the_array(self):
        before = amp.memory_statistics()["live_tensors"]
        array = amp.full((1000,), 3.0).numpy()
        dlpack = np.from_dlpack(amp.full((1000,), 4.0))
        gc.collect()
        self.assertEqual((array.sum(), dlpack.sum()), (3000, 4000))
        del array, dlpack
        self.assertEqual(amp.memory_statistics()["live_tensors"], before)

    def test_what_cannot_be(self):
        record = np.zeros(4, [("a", "f4"), ("b", "i1")])
        for wrong in (np.zeros(2, np.uint16), np.array(["a"]), record, record["a"], np.zeros(2, ">f4"),
                      np.zeros((1,) * 9, np.float32)):
            with self.subTest(dtype=wrong.dtype), self.assertRaisesRegex((TypeError, ValueError), "from_numpy|cannot|expected"):
                amp.from_numpy(wrong)


class BFloat16(unittest.TestCase):
    def test_bits(self):
        x = amp.tensor([1.0, -2.5], dtype=amp.bfloat16)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            array = x.numpy()
        self.assertEqual((array.ctypes.data, array.view(np.uint16).tolist()), (x.data_ptr(), [0x3F80, 0xC020]))
        with self.assertRaisesRegex(BufferError, "bfloat16"):
            memoryview(x)

    @unittest.skipIf(importlib.util.find_spec("ml_dtypes"), "ml_dtypes is installed")
    def test_a_sentence_without_ml_dtypes(self):
        with self.assertWarnsRegex(UserWarning, "ml_dtypes"):
            self.assertEqual(amp.ones(2, dtype=amp.bfloat16).numpy().dtype, np.uint16)

    @unittest.skipUnless(importlib.util.find_spec("ml_dtypes"), "ml_dtypes is not installed")
    def test_ml_dtypes(self):
        import ml_dtypes
        array = np.array([1, -2.5], ml_dtypes.bfloat16)
        x = amp.from_numpy(array)
        self.assertEqual((x.dtype, x.tolist(), x.data_ptr()), (amp.bfloat16, [1, -2.5], array.ctypes.data))
        self.assertEqual(x.numpy().dtype, ml_dtypes.bfloat16)


class DLPack(unittest.TestCase):
    def test_both_ways(self):
        array = np.arange(6, dtype=np.float32).reshape(2, 3)
        x = amp.from_dlpack(array)
        self.assertEqual(x.data_ptr(), array.ctypes.data)
        back = amp.from_dlpack(x)
        self.assertEqual((back.data_ptr(), x.__dlpack_device__()), (x.data_ptr(), (1, 0)))

    def test_versions(self):
        x = amp.zeros(2)
        names = [repr(x.__dlpack__(max_version=v)).split('"')[1] for v in (None, (0, 8), (1, 0), (2, 1))]
        self.assertEqual(names, ["dltensor", "dltensor", "dltensor_versioned", "dltensor_versioned"])
        with self.assertRaises(BufferError):
            x.__dlpack__(copy=True)

    def test_capsules_nobody_takes(self):
        before = amp.memory_statistics()["live_tensors"]
        for version in (None, (1, 0)):
            amp.zeros(100).__dlpack__(max_version=version)
        self.assertEqual(amp.memory_statistics()["live_tensors"], before)

    def test_a_capsule_is_taken_once(self):
        capsule = amp.zeros(2).__dlpack__()
        amp._amp.from_capsule(capsule)
        with self.assertRaises(ValueError):
            amp._amp.from_capsule(capsule)


class Buffers(unittest.TestCase):
    def test_of_python(self):
        data = bytearray(8)
        x = amp._amp.from_buffer(data)
        x[0] = 3
        self.assertEqual(data[0], 3)
        with self.assertRaises(BufferError):
            data.append(1)
        del x
        data.append(1)

    def test_contiguous_only(self):
        x = amp.ones(2, 3)
        self.assertEqual(bytes(memoryview(x)), np.ones((2, 3), np.float32).tobytes())
        self.assertEqual(ctypes.c_float.from_buffer(x).value, 1)
        with self.assertRaises((BufferError, TypeError)):
            ctypes.c_float.from_buffer(x.t())


if __name__ == "__main__":
    unittest.main()
