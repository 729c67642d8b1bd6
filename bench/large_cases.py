"""Larger cases of the ops than the recorded ones, in the same format, for bench/peers_ops.py.

    python large_cases.py FOLDER

writes FOLDER/million (about 2^20 elements for each op), FOLDER/batch (1,000 small matrices or transforms) and
FOLDER/matrix (one matrix of 256 × 256), in an environment with torch. What PyTorch gives is recorded as dtypes and
shapes only.
"""
import json
import struct
import sys
from pathlib import Path

import torch

import peers_ops

NAMES = {v: k for k, v in peers_ops.DTYPES.items()}
G = torch.Generator().manual_seed(1)


def normal(*shape):
    return torch.randn(shape, generator=G)


def uniform(*shape):
    return torch.rand(shape, generator=G) * 0.9 + 0.05


def positive(*shape):
    return torch.rand(shape, generator=G) + 0.5


def integers(high, *shape):
    return torch.randint(high, shape, generator=G)


def definite(*shape):
    a = torch.randn(shape, generator=G)
    return a @ a.mT / shape[-1] + torch.eye(shape[-1])


def lengths(n, value):
    return torch.full((n,), value)


UNARY = """abs acos asin atan ceil cos cosh erf erfinv exp expm1 floor isfinite isinf isnan log log10 log1p log2 neg
reciprocal round rsqrt sigmoid sign sin sinc sinh sqrt square tan tanh trunc logical_not celu elu gelu hardsigmoid
hardswish leaky_relu logsigmoid mish relu relu6 selu silu softplus softsign hardtanh nan_to_num""".split()
POSITIVE, INSIDE = "log log10 log1p log2 rsqrt sqrt".split(), "acos asin erfinv".split()
BINARY = """add sub mul div atan2 eq ne lt le gt ge floor_divide fmod remainder logaddexp logical_and logical_or
logical_xor maximum minimum""".split()
OVER_A_LIST = "sum mean amax amin logsumexp std var std_mean var_mean".split()
REDUCTIONS = "sum mean prod std var std_mean var_mean amax amin argmax argmin logsumexp cumsum cumprod cummax".split()
PAIR_LOSSES = """mse_loss l1_loss huber_loss smooth_l1_loss soft_margin_loss hinge_embedding_loss binary_cross_entropy
binary_cross_entropy_with_logits poisson_nll_loss kl_div""".split()
M = (1024, 1024)
IMAGE = (4, 16, 128, 128)
VOLUME = (2, 8, 16, 64, 64)


def upsamples(line, image, volume):
    """To twice the extents, in every mode."""
    for dims, x in ((1, line), (2, image), (3, volume)):
        size = [2 * extent for extent in x.shape[2:]]
        for mode in ("nearest", "nearest_exact"):
            yield f"upsample_{mode}{dims}d", dict(input=x, output_size=size)
        linear = ("linear1d", "bilinear2d", "trilinear3d")[dims - 1]
        yield f"upsample_{linear}", dict(input=x, output_size=size, align_corners=False)
    for mode in ("bicubic2d", "bilinear2d_aa", "bicubic2d_aa"):
        yield f"upsample_{mode}", dict(input=image, output_size=[200, 100], align_corners=False)


def rnn(gates, layer=True):
    tensors = [normal(gates * 512, 512) * 0.04, normal(gates * 512, 512) * 0.04, normal(gates * 512) * 0.1,
               normal(gates * 512) * 0.1]
    if layer:
        hx = [normal(1, 32, 512)] * (2 if gates == 4 else 1)
        return dict(input=normal(64, 32, 512), hx=hx, params=tensors, has_biases=True, num_layers=1, dropout=0.0,
                    train=False, bidirectional=False, batch_first=False)
    hx = [normal(32, 512)] * (2 if gates == 4 else 1)
    return dict(input=normal(32, 512), hx=hx, **dict(zip(("w_ih", "w_hh", "b_ih", "b_hh"), tensors)))


def million():
    x, u, p, y = normal(*M), uniform(*M), positive(*M), normal(*M)
    image, volume, line = normal(*IMAGE), normal(*VOLUME), normal(64, 16, 1024)
    for op in UNARY:
        yield op, dict(input=p if op in POSITIVE else u if op in INSIDE else x)
    for op in BINARY:
        yield op, dict(input=x, other=p)
    yield "polar", {"abs": p, "angle": x}
    yield "pow", dict(input=p, exponent=p)
    for op in REDUCTIONS:
        yield op, dict(input=x, dim=[1] if op in OVER_A_LIST else 1)
    for op in ("softmax", "log_softmax", "softmin"):
        yield op, dict(input=x, dim=-1)
    for op in PAIR_LOSSES:
        target = (u > 0.5).float() if op.startswith("binary") else torch.sign(y) if op in (
            "soft_margin_loss", "hinge_embedding_loss") else u
        yield op, dict(input=u if op == "binary_cross_entropy" else x, target=target)
    yield "max", dict(input=x, other=y)
    yield "min", dict(input=x, other=y)
    yield "adaptive_avg_pool1d", dict(input=line, output_size=100)
    yield "adaptive_avg_pool2d", dict(input=image, output_size=[7, 7])
    yield "adaptive_avg_pool3d", dict(input=volume, output_size=[5, 7, 7])
    yield "adaptive_max_pool2d", dict(input=image, output_size=[7, 7], return_indices=True)
    yield "adaptive_max_pool3d", dict(input=volume, output_size=[5, 7, 7], return_indices=True)
    yield "avg_pool1d", dict(input=line, kernel_size=[3], stride=[2], padding=[1])
    yield "avg_pool2d", dict(input=image, kernel_size=[3, 3], stride=[2, 2], padding=[1, 1])
    yield "avg_pool3d", dict(input=volume, kernel_size=[3, 3, 3], stride=[2, 2, 2], padding=[1, 1, 1])
    for dims, pooled_input in ((1, line), (2, image), (3, volume)):
        yield f"max_pool{dims}d", dict(input=pooled_input, kernel_size=[3] * dims, stride=2, padding=1, dilation=1,
                                       ceil_mode=False, return_indices=True)
    yield "fractional_max_pool2d", dict(input=image, kernel_size=[2, 2], output_size=[60, 60],
                                        random_samples=uniform(4, 16, 2), return_indices=True)
    yield "fractional_max_pool3d", dict(input=volume, kernel_size=[2, 2, 2], output_size=[7, 30, 30],
                                        random_samples=uniform(2, 8, 3), return_indices=True)
    pooled, where = torch.nn.functional.max_pool2d(image, 2, return_indices=True)
    yield "max_unpool2d", dict(input=pooled, indices=where, kernel_size=2, stride=2, padding=0)
    pooled3, where3 = torch.nn.functional.max_pool3d(volume, 2, return_indices=True)
    yield "max_unpool3d", dict(input=pooled3, indices=where3, kernel_size=2, stride=2, padding=0)
    yield "addcdiv", dict(input=x, tensor1=y, tensor2=p, value=1)
    yield "addcmul", dict(input=x, tensor1=y, tensor2=p, value=1)
    yield "lerp", dict(input=x, end=y, weight=u)
    yield "clamp", dict(input=x, min=-1.0, max=1.0)
    yield "where", dict(input=x, condition=x > 0, other=y)
    yield "masked_fill", dict(input=x, mask=x > 0, value=10)
    yield "threshold", dict(input=x, threshold=0.5, value=1.0)
    yield "prelu", dict(input=image, weight=normal(16))
    yield "glu", dict(input=x, dim=-1)
    yield "addr", dict(input=x, vec1=normal(1024), vec2=normal(1024), beta=1, alpha=1)
    yield "outer", dict(input=normal(1024), vec2=normal(1024))
    yield "dot", dict(input=normal(1 << 20), tensor=normal(1 << 20))
    yield "vdot", dict(input=normal(1 << 20), other=normal(1 << 20))
    yield "linalg_vecdot", dict(x=x, y=y, dim=-1)
    yield "mv", dict(input=x, vec=normal(1024))
    yield "addmv", dict(input=normal(1024), mat=x, vec=normal(1024), beta=1, alpha=1)
    yield "batch_norm", dict(input=image, running_mean=normal(16), running_var=positive(16), weight=normal(16),
                             bias=normal(16), training=False, momentum=0.1, eps=1e-5)
    yield "instance_norm", dict(input=image, weight=normal(16), bias=normal(16), use_input_stats=True, momentum=0.1,
                                eps=1e-5)
    yield "group_norm", dict(input=image, num_groups=4, weight=normal(16), bias=normal(16), eps=1e-5)
    yield "layer_norm", dict(input=x, normalized_shape=[1024], weight=normal(1024), bias=normal(1024), eps=1e-5)
    yield "rms_norm", dict(input=x, normalized_shape=[1024], weight=normal(1024), eps=1e-5)
    yield "local_response_norm", dict(input=image, size=5, alpha=1e-4, beta=0.75, k=1.0)
    yield "normalize", dict(input=x, p=2.0, dim=1, eps=1e-12)
    yield "renorm", dict(input=x, p=2, dim=0, maxnorm=5.0)
    yield "norm", dict(input=x, p=2, dim=1, keepdim=False)
    yield "linalg_vector_norm", dict(input=x, ord=3, dim=[1], keepdim=False)
    yield "linalg_matrix_norm", dict(input=normal(16, 256, 256), ord="fro", dim=[-2, -1], keepdim=False)
    yield "frobenius_norm", dict(input=x, dim=[0, 1], keepdim=False)
    yield "dist", dict(input=x, other=y, p=2)
    yield "bucketize", dict(input=x, boundaries=torch.sort(normal(100)).values)
    yield "searchsorted", dict(sorted_sequence=torch.sort(normal(1000)).values, values=x)
    yield "cat", dict(tensors=[normal(512, 1024), normal(512, 1024)], dim=1)
    yield "stack", dict(tensors=[normal(512, 1024), normal(512, 1024)], dim=-1)
    yield "cdist", dict(x1=normal(1000, 64), x2=normal(1000, 64), p=2.0)
    yield "pdist", dict(input=normal(1000, 64), p=2.0)
    yield "cosine_similarity", dict(x1=x, x2=y, dim=1, eps=1e-8)
    yield "cosine_embedding_loss", dict(input1=x, input2=y, target=torch.sign(normal(1024)), margin=0.1)
    yield "triplet_margin_loss", dict(anchor=x, positive=y, negative=p)
    yield "margin_ranking_loss", dict(input1=x, input2=y, target=torch.sign(normal(*M)), margin=0.1)
    yield "cross_entropy", dict(input=x, target=integers(1024, 1024))
    yield "nll_loss", dict(input=x, target=integers(1024, 1024))
    yield "cross_entropy_loss", dict(input=x, target=integers(1024, 1024))
    yield "nll_loss2d", dict(input=normal(4, 16, 128, 128), target=integers(16, 4, 128, 128))
    yield "multi_margin_loss", dict(input=x, target=integers(1024, 1024), p=1, margin=1.0)
    for op in ("multilabel_margin_loss", "multilabel_margin_loss_forward"):
        yield op, dict(input=normal(1024, 64), target=integers(64, 1024, 64))
    yield "ctc_loss", dict(log_probs=torch.log_softmax(normal(200, 64, 80), 2), targets=integers(79, 64, 40) + 1,
                           input_lengths=lengths(64, 200), target_lengths=lengths(64, 40), blank=0)
    yield "cross", dict(input=normal(1 << 18, 3), other=normal(1 << 18, 3))
    for op in ("clone", "trace", "zeros_like", "ones_like", "empty_like", "t", "contiguous"):
        yield op, dict(input=x)
    for op in ("zeros", "ones", "empty"):
        yield op, dict(size=list(M))
    yield "full", dict(size=list(M), fill_value=2.0)
    yield "arange", dict(end=1 << 20)
    yield "to", dict(input=x, dtype=torch.bfloat16)
    yield "equal", dict(input=x, other=x.clone())
    yield "roll", dict(input=x, shifts=[100], dims=[1])
    yield "cummin", dict(input=x, dim=1)
    yield "pairwise_distance", dict(x1=x, x2=y, p=2.0, eps=1e-6, keepdim=False)
    yield "full_like", dict(input=x, fill_value=2.0)
    yield "fill", dict(input=x, value=2.0)
    yield "flip", dict(input=x, dims=[0, 1])
    yield "repeat", dict(input=normal(512, 512), repeats=[2, 2])
    yield "tile", dict(input=normal(512, 512), dims=[2, 2])
    yield "tril", dict(input=x)
    yield "triu", dict(input=x)
    yield "constant_pad_nd", dict(input=image, pad=[1, 1, 1, 1], value=1.0)
    yield "reflection_pad1d", dict(input=line, padding=[1, 2])
    yield "reflection_pad2d", dict(input=image, padding=[1, 2, 1, 2])
    yield "replication_pad1d", dict(input=line, padding=[1, 2])
    yield "replication_pad2d", dict(input=image, padding=[1, 2, 1, 2])
    yield "replication_pad3d", dict(input=volume, padding=[1, 1, 1, 1, 1, 1])
    yield "pixel_shuffle", dict(input=image, upscale_factor=4)
    yield "pixel_unshuffle", dict(input=image, downscale_factor=4)
    yield "interpolate", dict(input=image, scale_factor=2.0, mode="bilinear", align_corners=False)
    yield from upsamples(line, image, volume)
    yield "grid_sampler", dict(input=image, grid=normal(4, 128, 128, 2) * 0.5, interpolation_mode=1, padding_mode=1,
                               align_corners=False)
    yield "grid_sampler_2d", dict(input=image, grid=normal(4, 128, 128, 2) * 0.5, interpolation_mode=0, padding_mode=0,
                                  align_corners=False)
    yield "grid_sampler_3d", dict(input=volume, grid=normal(2, 16, 64, 64, 3) * 0.5, interpolation_mode=0,
                                  padding_mode=0, align_corners=False)
    yield "embedding", dict(weight=normal(10000, 256), input=integers(10000, 4096))
    yield "embedding_bag", dict(weight=normal(10000, 256), input=integers(10000, 4096),
                                offsets=torch.arange(0, 4096, 16), mode="sum")
    yield "fake_quantize_per_tensor_affine", dict(input=x, scale=0.1, zero_point=3, quant_min=0, quant_max=255)
    rows = integers(1024, *M)
    yield "gather", dict(input=x, dim=0, index=rows)
    yield "take_along_dim", dict(input=x, indices=rows, dim=1)
    yield "scatter", dict(input=x, dim=1, index=rows, src=y)
    yield "scatter_add", dict(input=x, dim=1, index=rows, src=y)
    order = torch.randperm(1024, generator=G)
    yield "index_add", dict(input=x, dim=0, index=order, source=y, alpha=1)
    yield "index_copy", dict(input=x, dim=0, index=order, source=y)
    yield "index_select", dict(input=x, dim=1, index=order)
    yield "index_put", dict(input=x, indices=[integers(1024, 100000), integers(1024, 100000)], values=normal(100000),
                            accumulate=False)
    yield "sort", dict(input=x, dim=-1, descending=False)
    yield "topk", dict(input=x, k=10, dim=-1, largest=True, sorted=True)
    yield "quantile", dict(input=x, q=0.3, dim=1)
    yield "nanquantile", dict(input=x, q=0.3, dim=1)
    yield "bilinear", dict(input1=normal(128, 64), input2=normal(128, 64), weight=normal(64, 64, 64), bias=normal(64))
    yield "stft", dict(input=normal(8, 100000), n_fft=512, hop_length=128, window=uniform(512), center=True,
                       pad_mode="reflect", normalized=False, onesided=True, return_complex=True)
    for op in "fft_fft fft_ifft fft_rfft fft_ihfft".split():
        yield op, dict(input=x, dim=-1)
    for op in "fft_fft2 fft_ifft2 fft_rfft2".split():
        yield op, dict(input=x)
    for op in "fft_fftn fft_ifftn fft_rfftn".split():
        yield op, dict(input=normal(64, 128, 128))
    for op in "fft_hfft fft_irfft".split():
        yield op, dict(input=torch.complex(normal(1024, 513), normal(1024, 513)), dim=-1)
    yield "einsum", dict(tensors=[normal(16, 32, 32, 64), normal(64, 64)], equation="abcd,de->abce")
    yield "tensordot", dict(a=normal(32, 32, 64, 16), b=normal(64, 16, 64), dims=2)
    yield "conv_tbc", dict(input=normal(256, 8, 128), weight=normal(5, 128, 128), bias=normal(128), pad=2)
    yield "scaled_dot_product_attention", dict(query=normal(2, 8, 256, 64), key=normal(2, 8, 256, 64),
                                               value=normal(2, 8, 256, 64))
    q = normal(4, 128, 512)
    yield "native_multi_head_attention", dict(query=q, key=q, value=q, embed_dim=512, num_head=8,
                                              qkv_weight=normal(1536, 512) * 0.05, qkv_bias=normal(1536),
                                              proj_weight=normal(512, 512) * 0.05, proj_bias=normal(512),
                                              need_weights=False)
    for op, gates in (("lstm", 4), ("gru", 3), ("rnn_tanh", 1), ("rnn_relu", 1)):
        yield op, rnn(gates)
        yield op + "_cell", rnn(gates, False)
    yield "rnn_layer", rnn(4)


def linear_algebra(a, d, k):
    """a: matrices; d: positive-definite ones; k: right-hand sides."""
    for op in ("inverse", "linalg_eigvals", "linalg_eig"):
        yield op, dict(input=a)
    for op in ("linalg_inv", "linalg_inv_ex", "linalg_svdvals", "linalg_svd", "linalg_qr"):
        yield op, dict(A=a)
    for op in ("cholesky", "linalg_cholesky", "linalg_cholesky_ex", "linalg_eigh", "linalg_eigvalsh"):
        yield op, dict(input=d)
    for op in ("qr", "svd", "geqrf", "pinverse", "linalg_cond", "linalg_matrix_rank"):
        yield op, dict(input=a)
    l = torch.linalg.cholesky(d)
    yield "cholesky_inverse", dict(input=l)
    yield "cholesky_solve", dict(B=k, L=l)
    yield "symeig", dict(input=d, eigenvectors=True)
    yield "eig", dict(input=a, eigenvectors=False)
    yield "lu_with_info", dict(input=a)
    yield "lstsq", dict(input=k, A=a)
    yield "matrix_rank", dict(input=a)
    reflectors, tau = torch.geqrf(a)
    for op in ("linalg_householder_product", "orgqr"):
        yield op, dict(input=reflectors, tau=tau)
    yield "ormqr", dict(input=reflectors, tau=tau, other=k, left=True, transpose=True)
    yield "linalg_lstsq", dict(A=a, B=k)
    yield "linalg_solve", dict(A=a, B=k)
    lu, pivots = torch.linalg.lu_factor(a)
    yield "lu_solve", dict(b=k, LU_data=lu, LU_pivots=pivots)
    yield "triangular_solve", dict(input=k, A=l.mT.contiguous())
    yield "linalg_matrix_norm", dict(input=a, ord="nuc", dim=[-2, -1], keepdim=False)
    yield "nuclear_norm", dict(input=a, dim=[-2, -1], keepdim=False)


def batch():
    n = 1000
    yield from linear_algebra(normal(n, 8, 8), definite(n, 8, 8), normal(n, 8, 4))
    for op in "fft_fft fft_ifft fft_rfft fft_ihfft fft_hfft fft_irfft".split():
        yield op, dict(input=normal(n, 16), dim=-1)
    for op in "fft_fft2 fft_ifft2 fft_rfft2 fft_irfft2".split():
        yield op, dict(input=normal(n, 8, 8), dim=[-2, -1])
    for op in "fft_fftn fft_ifftn fft_rfftn fft_irfftn".split():
        yield op, dict(input=normal(n, 4, 4, 4), dim=[-3, -2, -1])
    yield "bmm", dict(input=normal(n, 16, 16), mat2=normal(n, 16, 16))
    pairs = dict(batch1=normal(n, 16, 16), batch2=normal(n, 16, 16), beta=1, alpha=1)
    yield "baddbmm", dict(input=normal(n, 16, 16), **pairs)
    yield "addbmm", dict(input=normal(16, 16), **pairs)
    yield "matmul", dict(input=normal(n, 16, 16), other=normal(n, 16, 16))
    yield "cdist", dict(x1=normal(n, 8, 8), x2=normal(n, 8, 8), p=2.0)
    yield "interpolate", dict(input=normal(n, 4, 8, 8), scale_factor=2.0, mode="bicubic", align_corners=False)
    yield "einsum", dict(tensors=[normal(8, 16, 64, 32), normal(64, 16)], equation="abcd,ce->abde")
    yield "linalg_multi_dot", dict(tensors=[normal(100, 20), normal(20, 300), normal(300, 10), normal(10, 100)])
    yield "chain_matmul", dict(tensors=[normal(100, 20), normal(20, 300), normal(300, 10), normal(10, 100)])


def matrix():
    yield from linear_algebra(normal(256, 256), definite(256, 256), normal(256, 64))
    for op in ("mm", "matmul"):
        yield op, {"input": normal(256, 256), "mat2" if op == "mm" else "other": normal(256, 256)}
    yield "addmm", dict(input=normal(256), mat1=normal(256, 256), mat2=normal(256, 256), beta=1, alpha=1)
    yield "linear", dict(input=normal(256, 256), weight=normal(256, 256), bias=normal(256))
    yield "pdist", dict(input=normal(256, 256), p=3.0)
    yield "cdist", dict(x1=normal(256, 256), x2=normal(256, 256), p=1.0)
    yield "interpolate", dict(input=normal(1, 3, 256, 256), size=[512, 512], mode="bicubic", align_corners=True)
    yield "grid_sampler_2d", dict(input=normal(1, 3, 256, 256), grid=normal(1, 256, 256, 2) * 0.5, interpolation_mode=2,
                                  padding_mode=1, align_corners=True)
    yield "einsum", dict(tensors=[normal(256, 256), normal(256, 256)], equation="ij,kj->ik")
    yield "fft_fft2", dict(input=normal(256, 256))


class Writer:
    def __init__(self):
        self.keys, self.tensors = {}, []

    def argument(self, value):
        if isinstance(value, torch.Tensor):
            key = self.keys.setdefault(id(value), f"t{len(self.keys)}")
            if len(self.keys) > len(self.tensors):
                self.tensors.append(value)
            return {"tensor": key, "dtype": NAMES[value.dtype], "shape": list(value.shape)}
        if isinstance(value, torch.dtype):
            return {"dtype_value": NAMES[value]}
        return [self.argument(v) for v in value] if isinstance(value, list) else value

    def write(self, folder, name, cases):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.json").write_text(json.dumps(cases))
        header, at, stored = {}, 0, {v: k for k, v in peers_ops.STORED.items()}
        for i, t in enumerate(self.tensors):
            t = torch.view_as_real(t) if t.is_complex() else t
            size = t.numel() * t.element_size()
            header[f"t{i}"] = {"dtype": stored[t.dtype], "shape": list(t.shape), "data_offsets": [at, at + size]}
            at += size
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open(folder / f"{name}.safetensors", "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            for t in self.tensors:
                file.write((torch.view_as_real(t) if t.is_complex() else t).contiguous().numpy().tobytes())


def outputs_of(op, inputs):
    call = peers_ops.call_of(op, inputs)
    if not call:
        print(f"{op}: not called in PyTorch", file=sys.stderr)
        return None
    return [{"dtype": NAMES[t.dtype], "shape": list(t.shape), "compare": "dtype_and_shape"}
            for t in peers_ops.flat(call())]


def main():
    root = Path(sys.argv[1])
    for name, function in (("million", million), ("batch", batch), ("matrix", matrix)):
        writer, cases = Writer(), []
        for op, inputs in function():
            outputs = outputs_of(op, inputs)
            if outputs:
                cases.append({"name": f"{op}/{name}/off-f32", "op": op, "policy": "fp32", "autocast": None,
                              "inputs": {k: writer.argument(v) for k, v in inputs.items()}, "outputs": outputs})
        writer.write(root / name, name, cases)


if __name__ == "__main__":
    with torch.inference_mode():
        main()
