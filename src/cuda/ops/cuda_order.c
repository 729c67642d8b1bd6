/* Sorting and searching: tiles, then merges, as many launches as it takes; long rows by digits. */
#include "cuda/ops/cuda_order.h"

#include "cpu/move/rows.h"
#include "cuda/args/index_args.h"
#include "cuda/cuda_backend.h"
#include "cuda/cuda_steps.h"

void *amp_cuda_rows_address(const char *op, const amp_rows *rows) {
    return amp_cuda_address(op, rows->copy ? rows->copy : &rows->target);
}

static int64_t row_blocks(int64_t rows) {
    return rows < 65536 ? rows : 65536;
}

/* Room for keys, or places, of rows; NULL with an error. */
static void *room_for(const amp_call *call, int64_t rows, int64_t length) {
    const int64_t shape[2] = {rows, length};
    const amp_tensor *room = amp_cuda_temporary(call, AMP_I64, 2, shape);
    return room ? amp_cuda_address(call->op->name, room) : NULL;
}

/* ---- By digits --------------------------------------------------------------------------------------------------- */
static int passes_of(amp_dtype dtype) {
    return (int)amp_dtype_size(dtype); /* a digit is a byte */
}

/* A merge reads and writes 32 bytes an element and bisects on top of it; a pass moves as many at the most, 20 of
 * elements up to 32 bits. So digits, where there would be as many merges as passes, or more. (Counters and places are
 * 32 bits wide.) */
static bool is_long(const amp_cuda_lines *lines) {
    return lines->length > (int64_t)AMP_CUDA_TILE << (passes_of(lines->dtype) - 1) && lines->length <= UINT32_MAX;
}

/* Keys of whole numbers are 64 bits wide, with the sign's bit turned over: in a narrower one's highest digit it is
 * still to do. */
static int flip_of(amp_dtype dtype, int pass) {
    const bool narrow = dtype == AMP_I8 || dtype == AMP_I16 || dtype == AMP_I32;
    return narrow && pass == passes_of(dtype) - 1 ? 0x80 : 0;
}

/* Dense memory of the call's for so many numbers; NULL with an error. */
static void *numbers_of(const amp_call *call, amp_dtype dtype, int64_t count) {
    const amp_tensor *t = amp_cuda_temporary(call, dtype, 1, &count);
    return t ? amp_cuda_address(call->op->name, t) : NULL;
}

/* What passes hand on: every one but the last writes keys and places, two sorts of which will do. */
typedef struct handed_on {
    void *keys[2];
    uint32_t *places[2];
} handed_on;

static amp_status make_room(const amp_call *call, amp_cuda_radix *a, handed_on *h) {
    const int64_t count = a->rows * a->length, lines = a->rows * AMP_CUDA_DIGITS;
    const int between = passes_of(a->dtype) - 1;
    for (int i = 0; i < 2 && i < between; i++) {
        h->keys[i] = numbers_of(call, a->wide ? AMP_I64 : AMP_I32, count);
        h->places[i] = h->keys[i] ? numbers_of(call, AMP_I32, count) : NULL;
        if (!h->places[i]) return amp_pending_error();
    }
    a->counts = numbers_of(call, AMP_I32, lines * a->tiles);
    a->totals = a->counts ? numbers_of(call, AMP_I32, lines) : NULL;
    return a->totals ? AMP_OK : amp_pending_error();
}

static amp_status run_pass(const char *op, const amp_cuda_radix *a) {
    const int64_t lines = a->rows * AMP_CUDA_DIGITS, tiles = a->rows * a->tiles;
    const int64_t scans = a->tiles <= AMP_CUDA_FEW_TILES ? amp_cuda_blocks(lines) : row_blocks(lines);
    AMP_TRY(amp_cuda_launch_over(op, "radix_count", a, row_blocks(tiles)));
    AMP_TRY(amp_cuda_launch_over(op, "radix_scan", a, scans));
    return amp_cuda_launch_over(op, "radix_move", a, row_blocks(tiles));
}

static amp_status sort_by_digits(const amp_call *call, const amp_cuda_sort *sort, amp_cuda_ordered *ordered) {
    amp_cuda_radix a = {.in = sort->in,
                        .dtype = sort->dtype,
                        .descending = sort->descending,
                        .last_first = sort->last_first,
                        .rows = sort->rows,
                        .length = sort->length,
                        .tiles = (sort->length + AMP_CUDA_RADIX_TILE - 1) / AMP_CUDA_RADIX_TILE,
                        .wide = passes_of(sort->dtype) > 4};
    const int last = passes_of(a.dtype) - 1;
    handed_on h = {{NULL, NULL}, {NULL, NULL}};
    int64_t *places = numbers_of(call, AMP_I64, a.rows * a.length);
    if (!places) return amp_pending_error();
    AMP_TRY(make_room(call, &a, &h));
    for (int pass = 0; pass <= last; pass++) {
        a.shift = 8 * pass;
        a.flip = flip_of(a.dtype, pass);
        a.sorted_keys = pass < last || a.wide ? h.keys[pass % 2] : NULL;
        a.sorted_places = h.places[pass % 2];
        a.final_places = pass == last ? places : NULL;
        AMP_TRY(run_pass(call->op->name, &a));
        a.keys = a.sorted_keys;
        a.places = a.sorted_places;
    }
    *ordered = (amp_cuda_ordered){a.keys, places};
    return AMP_OK;
}

/* ---- By merges --------------------------------------------------------------------------------------------------- */
amp_status amp_cuda_put_in_order(const amp_call *call, const amp_cuda_lines *lines, bool descending, bool last_first,
                                 amp_cuda_ordered *ordered) {
    const char *op = call->op->name;
    const int64_t count = lines->rows * lines->length, tiles = (lines->length + AMP_CUDA_TILE - 1) / AMP_CUDA_TILE;
    amp_cuda_sort a = {.in = lines->data,
                       .dtype = lines->dtype,
                       .descending = descending,
                       .last_first = last_first,
                       .rows = lines->rows,
                       .length = lines->length,
                       .keep = AMP_CUDA_TILE};
    uint64_t *keys[2] = {NULL, NULL};
    int64_t *places[2] = {NULL, NULL};
    if (is_long(lines)) return sort_by_digits(call, &a, ordered);
    for (int i = 0; i < (tiles > 1 ? 2 : 1); i++) {
        keys[i] = room_for(call, lines->rows, lines->length);
        places[i] = keys[i] ? room_for(call, lines->rows, lines->length) : NULL;
        if (!places[i]) return amp_pending_error();
    }
    a.sorted_keys = keys[0];
    a.sorted_places = places[0];
    AMP_TRY(amp_cuda_launch_over(op, "sort_tiles", &a, row_blocks(lines->rows * tiles)));
    int now = 0;
    for (a.width = AMP_CUDA_TILE; a.width < lines->length; a.width *= 2, now = !now) {
        a.keys = keys[now];
        a.places = places[now];
        a.sorted_keys = keys[!now];
        a.sorted_places = places[!now];
        AMP_TRY(amp_cuda_launch_over(op, "sort_merge", &a, amp_cuda_blocks(count)));
    }
    *ordered = (amp_cuda_ordered){keys[now], places[now]};
    return AMP_OK;
}

/* The first k of each row: of every tile in order, what cannot be among them is left behind, until one tile is left.
 * `in_order` becomes the number of places of a row. */
static amp_status find_first(const amp_call *call, const amp_cuda_lines *lines, int64_t k, amp_cuda_sort *a,
                             const int64_t **places, int64_t *in_order) {
    const char *op = call->op->name;
    int64_t tiles;
    a->keep = k;
    do {
        tiles = (a->length + AMP_CUDA_TILE - 1) / AMP_CUDA_TILE;
        const int64_t last = a->length - (tiles - 1) * AMP_CUDA_TILE, kept = (tiles - 1) * k + (k < last ? k : last);
        a->sorted_keys = room_for(call, lines->rows, kept);
        a->sorted_places = a->sorted_keys ? room_for(call, lines->rows, kept) : NULL;
        if (!a->sorted_places) return amp_pending_error();
        AMP_TRY(amp_cuda_launch_over(op, "sort_tiles", a, row_blocks(lines->rows * tiles)));
        a->keys = a->sorted_keys;
        a->places = a->sorted_places;
        a->length = kept;
    } while (tiles > 1);
    *places = a->places;
    *in_order = a->length;
    return AMP_OK;
}

static amp_status lines_of(const amp_call *call, const amp_rows *rows, amp_cuda_lines *lines) {
    *lines = (amp_cuda_lines){amp_cuda_rows_address(call->op->name, rows), rows->dtype, rows->count, rows->length};
    return lines->data ? AMP_OK : amp_pending_error();
}

amp_status amp_cuda_first_of_rows(const amp_call *call, const amp_rows *in, int64_t k, bool descending, bool last_first,
                                  const amp_rows *values, const amp_rows *indices) {
    const char *op = call->op->name;
    amp_cuda_lines lines;
    amp_cuda_ordered ordered = {NULL, NULL};
    if (in->count * in->length == 0 || k == 0) return AMP_OK;
    AMP_TRY(lines_of(call, in, &lines));
    int64_t in_order = in->length;
    if (k <= AMP_CUDA_TILE / 2) {
        amp_cuda_sort sort = {.in = lines.data,
                              .dtype = lines.dtype,
                              .descending = descending,
                              .last_first = last_first,
                              .rows = lines.rows,
                              .length = lines.length};
        AMP_TRY(find_first(call, &lines, k, &sort, &ordered.places, &in_order));
    } else {
        AMP_TRY(amp_cuda_put_in_order(call, &lines, descending, last_first, &ordered));
    }
    const amp_cuda_take a = {.in = lines.data,
                             .in_order = in_order,
                             .places = ordered.places,
                             .values = amp_cuda_rows_address(op, values),
                             .indices = amp_cuda_rows_address(op, indices),
                             .size = (int)in->size,
                             .rows = in->count,
                             .length = in->length,
                             .wanted = k};
    if (!a.values || !a.indices) return amp_pending_error();
    return amp_cuda_launch_over(op, "sort_take", &a, amp_cuda_blocks(in->count * k));
}

amp_status amp_cuda_quantiles_of(const amp_call *call, const amp_rows *in, const amp_quantiles *work,
                                 const amp_rows *out) {
    const char *op = call->op->name;
    amp_cuda_lines lines;
    amp_cuda_ordered ordered;
    if (work->count == 0 || in->count == 0) return AMP_OK;
    AMP_TRY(lines_of(call, in, &lines));
    AMP_TRY(amp_cuda_put_in_order(call, &lines, false, false, &ordered));
    amp_cuda_quantiles a = {.in = lines.data,
                            .places = ordered.places,
                            .out = amp_cuda_rows_address(op, out),
                            .dtype = in->dtype,
                            .number = work->number,
                            .rows = in->count,
                            .length = in->length,
                            .count = work->count,
                            .rule = work->rule,
                            .without_nan = work->without_nan};
    if (!a.out) return amp_pending_error();
    AMP_TRY(amp_cuda_report_of(op, &a.report));
    if (work->q) {
        const amp_tensor *q = amp_cuda_dense(work->q);
        a.q = q ? amp_cuda_address(op, q) : NULL;
        if (!a.q) return amp_pending_error();
        a.q_dtype = q->dtype;
    }
    return amp_cuda_launch_over(op, "quantile", &a, amp_cuda_blocks(work->count * in->count));
}

amp_status amp_cuda_search_rows(const amp_call *call, const amp_searching *s, const amp_rows *values,
                                const amp_rows *out) {
    const char *op = call->op->name;
    const amp_tensor *places = s->sorter ? amp_cuda_dense(s->sorter) : NULL;
    const amp_dtype compute = s->compute;
    amp_rows sequence;
    AMP_TRY(amp_rows_of(call, s->sequence, 1u << (s->sequence->rank - 1), &sequence));
    const bool one_row = sequence.count == 1;
    amp_cuda_search a = {.sequence = amp_cuda_rows_address(op, &sequence),
                         .values = amp_cuda_rows_address(op, values),
                         .out = amp_cuda_rows_address(op, out),
                         .sequence_dtype = sequence.dtype,
                         .values_dtype = values->dtype,
                         .out_dtype = out->dtype,
                         .length = sequence.length,
                         .count = values->count * values->length,
                         .each = one_row ? INT64_MAX : values->length,
                         .right = s->right};
    if (a.count == 0) return AMP_OK;
    if (places) {
        a.sorter = amp_cuda_address(op, places);
        a.sorter_dtype = places->dtype;
    }
    if (!a.sequence || !a.values || !a.out || (s->sorter && !a.sorter)) return amp_pending_error();
    AMP_TRY(amp_cuda_report_of(op, &a.report));
    const char *kernel = compute == AMP_F32 ? "search_f32" : compute == AMP_F64 ? "search_f64" : "search_i64";
    return amp_cuda_launch_over(op, kernel, &a, amp_cuda_blocks(a.count));
}
