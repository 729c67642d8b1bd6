/* The maxima of pool_resample.h for one dtype, compiled by pool_resample_body.h for each; no include guard. DTYPE is
 * its name, ELEMENT the type in memory, LOAD and STORE (…_FIRST, and …_PAIR where pairs are quicker) bring it to f32
 * and back.
 *
 * Formula:     pool_resample.h.
 * Accumulator: f32, one per element, in ascending k; exact, as it holds an element.
 * ISA:         that of the simd header; the same bits on each.
 * Source:      none beyond the definitions. */
#define MAX_PASTE_(name, dtype, isa) amp_##name##_##dtype##_##isa
#define MAX_PASTE(name, dtype, isa) MAX_PASTE_(name, dtype, isa)
#define MAX_KERNEL(name) MAX_PASTE(name, DTYPE, SIMD_ISA)
#define LOADED_ MAX_PASTE(load_together, DTYPE, SIMD_ISA)

/* TOGETHER vectors; which lane has which element does not matter, as the store undoes it. */
static inline void LOADED_(const ELEMENT *in, vf *x) {
    AMP_UNROLL
    for (int v = 0; v < TOGETHER; v += 2) {
#ifdef LOAD_PAIR
        LOAD_PAIR(in + v * VL, &x[v], &x[v + 1]);
#else
        x[v] = LOAD(in + v * VL);
        x[v + 1] = LOAD(in + (v + 1) * VL);
#endif
    }
}

void MAX_KERNEL(max_lines)(void *results, const void *const *lines, int64_t count, int64_t n) {
    ELEMENT *out = results;
    int64_t i = 0;
    for (; i + TOGETHER * VL <= n; i += TOGETHER * VL) {
        vf most[TOGETHER];
        LOADED_((const ELEMENT *)lines[0] + i, most);
        for (int64_t k = 1; k < count; k++) {
            vf x[TOGETHER];
            LOADED_((const ELEMENT *)lines[k] + i, x);
            AMP_UNROLL
            for (int v = 0; v < TOGETHER; v++) most[v] = larger(most[v], x[v]);
        }
        AMP_UNROLL
        for (int v = 0; v < TOGETHER; v += 2) {
#ifdef STORE_PAIR
            STORE_PAIR(out + i + v * VL, most[v], most[v + 1]);
#else
            STORE(out + i + v * VL, most[v]);
            STORE(out + i + (v + 1) * VL, most[v + 1]);
#endif
        }
    }
    for (; i + VL <= n; i += VL) {
        vf most = LOAD((const ELEMENT *)lines[0] + i);
        for (int64_t k = 1; k < count; k++) most = larger(most, LOAD((const ELEMENT *)lines[k] + i));
        STORE(out + i, most);
    }
    if (i == n) return;
    vf most = LOAD_FIRST((const ELEMENT *)lines[0] + i, n - i);
    for (int64_t k = 1; k < count; k++) most = larger(most, LOAD_FIRST((const ELEMENT *)lines[k] + i, n - i));
    STORE_FIRST(out + i, most, n - i);
}

void MAX_KERNEL(argmax_lines)(void *results, float *which, const void *const *lines, int64_t count, int64_t n) {
    ELEMENT *out = results;
    int64_t i = 0;
    for (; i + VL <= n; i += VL) {
        best b = {LOAD((const ELEMENT *)lines[0] + i), v_set1(0.0f)};
        for (int64_t k = 1; k < count; k++) b = better(b, LOAD((const ELEMENT *)lines[k] + i), k);
        STORE(out + i, b.value);
        v_store(which + i, b.which);
    }
    if (i == n) return;
    best b = {LOAD_FIRST((const ELEMENT *)lines[0] + i, n - i), v_set1(0.0f)};
    for (int64_t k = 1; k < count; k++) b = better(b, LOAD_FIRST((const ELEMENT *)lines[k] + i, n - i), k);
    STORE_FIRST(out + i, b.value, n - i);
    v_store_first(which + i, b.which, n - i);
}

#undef DTYPE
#undef ELEMENT
#undef LOAD
#undef LOAD_FIRST
#undef LOAD_PAIR
#undef STORE
#undef STORE_FIRST
#undef STORE_PAIR
#undef LOADED_
#undef MAX_KERNEL
#undef MAX_PASTE
#undef MAX_PASTE_
