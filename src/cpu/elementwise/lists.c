/* One parallel region over a list of tensors: each thread takes a range of the units of all, and finds its tensors by
 * itself. */
#include "cpu/elementwise/lists.h"

#include <omp.h>

#include "core/layout.h"
#include "core/memory.h"
#include "core/parallel.h"
#include "cpu/convert/element.h"

/* ---- The walk ----------------------------------------------------------------------------------------------------- */

static int64_t units_of(const amp_list_walk *w, int64_t elements) {
    return elements / w->unit + (elements % w->unit != 0);
}

static void run_part(const amp_list_walk *w, amp_range part) {
    int64_t before = 0; /* units of the tensors that were passed */
    for (int64_t i = 0; i < w->tensors.count && before < part.end; i++) {
        const int64_t elements = amp_tensor_elements(w->tensors.items[i]), units = units_of(w, elements);
        const int64_t begin = part.begin > before ? part.begin - before : 0;
        const int64_t end = part.end - before < units ? part.end - before : units;
        if (begin < end) w->piece(w->context, i, begin * w->unit, end < units ? end * w->unit : elements);
        before += units;
    }
}

void amp_list_walk_run(const amp_list_walk *w) {
    int64_t units = 0, elements = 0;
    for (int64_t i = 0; i < w->tensors.count; i++) {
        const int64_t of_this = amp_tensor_elements(w->tensors.items[i]);
        elements += of_this;
        units += units_of(w, of_this);
    }
    const int threads = w->in_order ? 1 : amp_parallel_threads(w->cost * elements, AMP_GRAIN_ELEMENTS);
#pragma omp parallel num_threads(threads) if (threads > 1)
    run_part(w, amp_parallel_part(units, 1, omp_get_thread_num(), omp_get_num_threads()));
}

/* ---- Shared memory ------------------------------------------------------------------------------------------------ */

/* A set of addresses, with at least as many places free as taken. */
typedef struct addresses {
    const void **places;
    size_t mask;
} addresses;

/* False: it was there before. */
static bool put(addresses *a, const void *address) {
    size_t at = (size_t)((uintptr_t)address / 64 * 0x9E3779B97F4A7C15u >> 32) & a->mask;
    for (; a->places[at]; at = (at + 1) & a->mask) {
        if (a->places[at] == address) return false;
    }
    a->places[at] = address;
    return true;
}

static bool put_all(addresses *a, const amp_tensor_list *list) {
    for (int64_t i = 0; i < list->count; i++) {
        const amp_tensor *t = list->items[i];
        if (amp_tensor_elements(t) > 0 && !put(a, t->storage->data)) return false;
    }
    return true;
}

/* Without memory for the question the answer is yes, which is always right, though slow. */
bool amp_lists_share_memory(const amp_tensor_list *lists, int count) {
    size_t tensors = 0, places = 2;
    for (int i = 0; i < count; i++) tensors += (size_t)lists[i].count;
    if (tensors < 2) return false;
    while (places < 2 * tensors) places *= 2;
    addresses a = {amp_alloc_zeroed(places * sizeof *a.places), places - 1};
    bool are_apart = a.places != NULL;
    for (int i = 0; i < count && are_apart; i++) are_apart = put_all(&a, &lists[i]);
    amp_free(a.places);
    return !are_apart;
}

/* ---- Elements in place ---------------------------------------------------------------------------------------------- */

typedef struct application {
    const amp_list_function *function;
    amp_tensor *const *tensors;
} application;

/* Those with gaps are done behind the walk. */
static void apply_piece(void *context, int64_t index, int64_t begin, int64_t end) {
    const application *a = context;
    const amp_tensor *t = a->tensors[index];
    if (!amp_fills_memory(t)) return;
    const int64_t size = (int64_t)amp_element_sizes[t->dtype];
    char *data = (char *)amp_tensor_pointer(t) + begin * size;
    const void *in = data;
    if (t->dtype == AMP_F64) {
        a->function->f64(a->function->context, data, &in, end - begin);
    } else if (t->dtype == AMP_F32) {
        a->function->f32(a->function->context, data, &in, end - begin);
    } else {
        enum { BLOCK = AMP_BLOCK_BYTES / sizeof(float) };
        _Alignas(64) float buffer[BLOCK];
        in = buffer;
        for (int64_t at = begin; at < end; at += BLOCK, data += BLOCK * size) {
            const int64_t n = end - at < BLOCK ? end - at : BLOCK;
            amp_block_load(AMP_F32, buffer, t->dtype, data, size, n);
            a->function->f32(a->function->context, buffer, &in, n);
            amp_block_store(AMP_F32, buffer, t->dtype, data, size, n);
        }
    }
}

static void apply_to_strided(const amp_list_function *f, amp_tensor *t) {
    const amp_dtype compute = t->dtype == AMP_F64 ? AMP_F64 : AMP_F32;
    const amp_elementwise work = {.function = compute == AMP_F64 ? f->f64 : f->f32,
                                  .context = f->context,
                                  .out_compute = compute,
                                  .inputs = 1,
                                  .in = {{.tensor = t, .compute = compute}},
                                  .cost = f->cost};
    amp_elementwise_run(&work, t);
}

void amp_list_apply(const amp_tensor_list *list, const amp_list_function *f) {
    application a = {f, list->items};
    const amp_list_walk walk = {.tensors = *list,
                                .unit = 64,
                                .cost = f->cost,
                                .in_order = amp_lists_share_memory(list, 1),
                                .piece = apply_piece,
                                .context = &a};
    amp_block_prepare();
    amp_list_walk_run(&walk);
    for (int64_t i = 0; i < list->count; i++) {
        if (!amp_fills_memory(list->items[i])) apply_to_strided(f, list->items[i]);
    }
}
