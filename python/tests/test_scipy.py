"""Beside SciPy, where it is installed: special functions, linear algebra, transforms, distances, correlation, in f64."""
import unittest

import numpy as np

import amp

try:
    import scipy
    from scipy import fft, integrate, linalg, signal, spatial, special
except ImportError as missing:
    raise unittest.SkipTest(f"SciPy is not installed: {missing}")

RANDOM = np.random.default_rng(11)


def numbers(*shape):
    return RANDOM.standard_normal(shape)


class Beside(unittest.TestCase):
    def close(self, mine, theirs, rtol=1e-12, atol=1e-12):
        np.testing.assert_allclose(mine.numpy(), theirs, rtol=rtol, atol=atol)

    def test_special_functions(self):
        real, positive, inside = numbers(500) * 3, np.abs(numbers(500)) * 5 + 1e-3, RANDOM.uniform(-0.999, 0.999, 500)
        cases = [(amp.erf, special.erf, real), (amp.erfc, special.erfc, real), (amp.erfinv, special.erfinv, inside),
                 (amp.lgamma, special.gammaln, positive), (amp.digamma, special.digamma, positive),
                 (amp.logit, special.logit, np.abs(inside) * 0.999 + 1e-4), (amp.sigmoid, special.expit, real),
                 (amp.expm1, special.expm1, real), (amp.log1p, special.log1p, positive), (amp.sinc, np.sinc, real)]
        for mine, theirs, x in cases:
            with self.subTest(op=theirs.__name__):
                self.close(mine(amp.from_numpy(x)), theirs(x), rtol=1e-11)
        for order in range(1, 4):
            self.close(amp.polygamma(order, amp.from_numpy(positive)), special.polygamma(order, positive), rtol=1e-10)
        self.close(amp.xlogy(amp.from_numpy(real), amp.from_numpy(positive)), special.xlogy(real, positive))

    def test_sums_of_exponents(self):
        x = numbers(7, 40) * 300
        self.close(amp.logsumexp(amp.from_numpy(x), 1), special.logsumexp(x, axis=1))
        self.close(amp.softmax(amp.from_numpy(x), 1), special.softmax(x, axis=1))
        self.close(amp.log_softmax(amp.from_numpy(x), 1), special.log_softmax(x, axis=1))

    def test_linear_algebra(self):
        a, b = numbers(30, 30), numbers(30, 4)
        definite = a @ a.T + 30 * np.eye(30)
        x, d, right = amp.from_numpy(a), amp.from_numpy(definite), amp.from_numpy(b)
        self.close(amp.linalg_solve(x, right), linalg.solve(a, b), rtol=1e-9, atol=1e-9)
        self.close(amp.linalg_inv(x), linalg.inv(a), rtol=1e-9, atol=1e-9)
        self.close(amp.linalg_det(x), linalg.det(a), rtol=1e-10)
        self.close(amp.linalg_cholesky(d), linalg.cholesky(definite, lower=True))
        self.close(amp.linalg_eigvalsh(d), linalg.eigvalsh(definite), rtol=1e-10)
        self.close(amp.linalg_svdvals(x), linalg.svdvals(a), rtol=1e-10)
        self.close(amp.linalg_pinv(right), linalg.pinv(b), rtol=1e-10, atol=1e-10)
        self.close(amp.linalg_matrix_exp(x / 4), linalg.expm(a / 4), rtol=1e-9, atol=1e-9)
        self.close(amp.linalg_solve_triangular(d.triu(), right, upper=True), linalg.solve_triangular(np.triu(definite), b))
        self.close(amp.linalg_lstsq(right, x).solution, linalg.lstsq(b, a)[0], rtol=1e-9, atol=1e-9)
        p, lower, upper = amp.linalg_lu(x)
        for mine, theirs in zip((p, lower, upper), linalg.lu(a)):
            self.close(mine, theirs)
        mine = np.sort_complex(amp.linalg_eigvals(x).numpy())
        np.testing.assert_allclose(mine, np.sort_complex(linalg.eigvals(a)), rtol=1e-9, atol=1e-9)

    def test_transforms(self):
        for length in (1, 16, 45, 97):
            with self.subTest(length=length):
                real, z = numbers(3, length), numbers(3, length) + 1j * numbers(3, length)
                self.close(amp.fft_fft(amp.from_numpy(z)), fft.fft(z), atol=1e-11)
                self.close(amp.fft_ifft(amp.from_numpy(z), norm="ortho"), fft.ifft(z, norm="ortho"), atol=1e-11)
                self.close(amp.fft_rfft(amp.from_numpy(real)), fft.rfft(real), atol=1e-11)
                self.close(amp.fft_irfft(amp.fft_rfft(amp.from_numpy(real)), n=length), real, atol=1e-11)
                self.close(amp.fft_fftn(amp.from_numpy(z)), fft.fftn(z), atol=1e-11)

    def test_distances(self):
        a, b = numbers(12, 5), numbers(9, 5)
        for p, metric in ((1.0, "cityblock"), (2.0, "euclidean"), (float("inf"), "chebyshev")):
            self.close(amp.cdist(amp.from_numpy(a), amp.from_numpy(b), p=p), spatial.distance.cdist(a, b, metric), rtol=1e-9, atol=1e-9)
            self.close(amp.pdist(amp.from_numpy(a), p=p), spatial.distance.pdist(a, metric), rtol=1e-9, atol=1e-9)

    def test_correlation(self):
        x, w = numbers(20, 24), numbers(3, 5)
        mine = amp.conv2d(amp.from_numpy(x[None, None]), amp.from_numpy(w[None, None]))
        self.close(mine[0, 0], signal.correlate(x, w, mode="valid"), atol=1e-11)
        self.close(amp.trapezoid(amp.from_numpy(x), dim=1), integrate.trapezoid(x, axis=1))

    def test_bf16_is_as_near_as_its_type(self):
        a, b = numbers(64, 48).astype(np.float32), numbers(48, 32).astype(np.float32)
        with amp.autocast("cpu"):
            mine = amp.from_numpy(a) @ amp.from_numpy(b)
        self.assertIs(mine.dtype, amp.bfloat16)
        bound = 3 * 2.0**-9 * (np.abs(a) @ np.abs(b)) + 2.0**-8 * np.abs(linalg.blas.sgemm(1, a, b))
        self.assertTrue((np.abs(mine.float().numpy() - linalg.blas.sgemm(1, a, b)) <= bound).all(), scipy.__version__)


if __name__ == "__main__":
    unittest.main()
