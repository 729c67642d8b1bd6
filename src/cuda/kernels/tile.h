/* Products of 16 × 16 tiles in shared memory, each one warp's work: on tensor cores for 16-bit floats, else by fused
 * multiply-adds. Sums are f32, or f64 for f64. Tiles begin at multiples of 32 bytes, rows at multiples of 16. */
#ifndef AMP_CUDA_TILE_H
#define AMP_CUDA_TILE_H

#include "cuda/kernels/kernel.h"

#ifdef __CUDACC__
#include <mma.h>
#endif

AMP_DEVICE int lane_of_warp() {
    return AMP_THREAD % AMP_LANES;
}

/* ---- Sums of a tile, spread over a warp's lanes ------------------------------------------------------------------ */
template <class Elements>
struct tile {
    typedef typename Elements::stored stored;
    typedef typename Elements::wide wide;
    enum { MINE = 256 / AMP_LANES };
    wide x[MINE];

    AMP_DEVICE_MEMBER void clear() {
        for (int i = 0; i < MINE; i++) x[i] = 0;
    }
    /* Adds a·b, or a·bᵀ. */
    template <bool TURNED>
    AMP_DEVICE_MEMBER void add(const stored *a, int a_step, const stored *b, int b_step) {
        for (int i = 0; i < MINE; i++) {
            const int at = lane_of_warp() * MINE + i, row = at / 16, column = at % 16;
            for (int k = 0; k < 16; k++) {
                const stored right = TURNED ? b[column * b_step + k] : b[k * b_step + column];
                x[i] = fma(Elements::widen(a[row * a_step + k]), Elements::widen(right), x[i]);
            }
        }
    }
    AMP_DEVICE_MEMBER void store(wide *to, int step) const {
        for (int i = 0; i < MINE; i++) {
            const int at = lane_of_warp() * MINE + i;
            to[at / 16 * step + at % 16] = x[i];
        }
    }
    AMP_DEVICE_MEMBER wide &element(int i) {
        return x[i];
    }
    /* The rows of this lane's elements. `scratch`: 256 numbers of the warp's. */
    AMP_DEVICE_MEMBER static void find_rows(int *rows, wide *) {
        for (int i = 0; i < MINE; i++) rows[i] = (lane_of_warp() * MINE + i) / 16;
    }
};

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 700
template <class Native>
struct tensor_core_tile {
    enum { MINE = 8 };
    nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> x;

    AMP_DEVICE_MEMBER void clear() {
        nvcuda::wmma::fill_fragment(x, 0.0f);
    }
    template <bool TURNED>
    AMP_DEVICE_MEMBER void add(const uint16_t *a, int a_step, const uint16_t *b, int b_step) {
        using namespace nvcuda;
        typedef typename layout_of<TURNED>::type layout;
        wmma::fragment<wmma::matrix_a, 16, 16, 16, Native, wmma::row_major> left;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, Native, layout> right;
        wmma::load_matrix_sync(left, (const Native *)a, a_step);
        wmma::load_matrix_sync(right, (const Native *)b, b_step);
        wmma::mma_sync(x, left, right, x);
    }
    AMP_DEVICE_MEMBER void store(float *to, int step) const {
        nvcuda::wmma::store_matrix_sync(to, x, step, nvcuda::wmma::mem_row_major);
    }
    AMP_DEVICE_MEMBER float &element(int i) {
        static_assert(decltype(x)::num_elements == MINE, "a lane has an eighth of 64 elements");
        return x.x[i];
    }
    /* Which lane has which element is the GPU's secret: it is asked with a tile of row numbers. */
    AMP_DEVICE_MEMBER static void find_rows(int *rows, float *scratch) {
        tensor_core_tile numbers;
        for (int i = lane_of_warp(); i < 256; i += AMP_LANES) scratch[i] = (float)(i / 16);
        AMP_WARP_BARRIER();
        nvcuda::wmma::load_matrix_sync(numbers.x, scratch, 16, nvcuda::wmma::mem_row_major);
        for (int i = 0; i < MINE; i++) rows[i] = (int)numbers.x.x[i];
        AMP_WARP_BARRIER();
    }

  private:
    template <bool TURNED, class Unused = void>
    struct layout_of {
        typedef nvcuda::wmma::row_major type;
    };
    template <class Unused>
    struct layout_of<true, Unused> {
        typedef nvcuda::wmma::col_major type;
    };
};
template <>
struct tile<f16_elements> : tensor_core_tile<__half> {};
#if __CUDA_ARCH__ >= 800
template <>
struct tile<bf16_elements> : tensor_core_tile<__nv_bfloat16> {};
#endif
#endif

#endif /* AMP_CUDA_TILE_H */
