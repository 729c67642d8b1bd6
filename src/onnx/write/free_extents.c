#include "onnx/write/free_extents.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "amp/ops.h"
#include "core/memory.h"
#include "core/tensor_impl.h"
#include "core/thread.h"
#include "graph/record.h"

enum { FIXED = -1 };

static signed char *place(const amp_free_extents *f, int input, int dim) {
    return &f->which[input * AMP_MAX_RANK + dim];
}

/* ---- Which ------------------------------------------------------------------------------------------------------ */

static int find_name(const amp_free_extents *f, const char *name) {
    for (int i = 0; i < f->count; i++) {
        if (strcmp(f->items[i].name, name) == 0) return i;
    }
    return FIXED;
}

static amp_status add(amp_free_extents *f, const amp_graph_source *s, const char *name, int input, int dim,
                      const amp_tensor *t) {
    int i = find_name(f, name);
    if (i < 0 && f->count == AMP_FREE_EXTENTS)
        return amp_fail(AMP_ERROR_INVALID, "graph_save: %s: at most %d extents can be free", s->name, AMP_FREE_EXTENTS);
    if (i < 0) {
        i = f->count++;
        f->names[i] = name;
        f->items[i] = (amp_free_extent){.name = name, .input = input, .dim = dim, .given = t->shape[dim]};
    }
    const amp_free_extent *e = &f->items[i];
    if (e->given != t->shape[dim])
        return amp_fail(AMP_ERROR_INVALID, "graph_save: %s: the extent '%s' is %lld of '%s' and %lld of '%s'", s->name,
                        name, (long long)e->given, s->inputs[e->input].name, (long long)t->shape[dim],
                        s->inputs[input].name);
    if (e->given == 0)
        return amp_fail(AMP_ERROR_INVALID,
                        "graph_save: %s: the extent '%s' is 0; one that is to be free is at least 1 in what is given",
                        s->name, name);
    *place(f, input, dim) = (signed char)i;
    return AMP_OK;
}

/* All that the model has names for. */
static amp_status read_models(amp_free_extents *f, const amp_graph_source *s, amp_tensor *const *inputs) {
    f->is_models = true;
    for (int i = 0; i < s->input_count; i++) {
        for (int d = 0; d < s->inputs[i].rank; d++) {
            const char *name = s->inputs[i].extent_names[d];
            if (name && *name && s->inputs[i].shape[d] < 0) AMP_TRY(add(f, s, name, i, d, inputs[i]));
        }
    }
    return AMP_OK;
}

static int find_input(const amp_graph_source *s, const char *name) {
    for (int i = 0; i < s->input_count; i++) {
        if (strcmp(s->inputs[i].name, name) == 0) return i;
    }
    char *end;
    const long number = strtol(name, &end, 10);
    return *name && !*end && number >= 0 && number < s->input_count ? (int)number : FIXED;
}

static amp_status fail_word(const amp_graph_source *s, const char *word, const char *why) {
    return amp_fail(AMP_ERROR_INVALID, "graph_save: %s: dynamic: '%s': %s", s->name, word, why);
}

/* "ids:0=batch", in pieces afterwards. */
static amp_status read_word(amp_free_extents *f, const amp_graph_source *s, amp_tensor *const *inputs, char *word) {
    char *equals = strrchr(word, '='), *end = NULL;
    char whole[128];
    snprintf(whole, sizeof whole, "%s", word);
    if (equals) *equals = 0;
    char *colon = equals ? strrchr(word, ':') : NULL;
    if (!colon || !equals[1]) return fail_word(s, whole, "expected INPUT:DIMENSION=NAME");
    *colon = 0;
    const long dim = strtol(colon + 1, &end, 10);
    if (!colon[1] || *end) return fail_word(s, whole, "the dimension is no number");
    const int input = find_input(s, word);
    if (input < 0) return fail_word(s, whole, "the graph has no such input");
    if (dim < 0 || dim >= inputs[input]->rank) return fail_word(s, whole, "the input has no such dimension");
    if (s->inputs[input].rank >= 0 && s->inputs[input].shape[dim] >= 0)
        return fail_word(s, whole, "the model itself fixes this extent");
    if (*place(f, input, (int)dim) >= 0) return fail_word(s, whole, "the extent is there twice");
    return add(f, s, equals + 1, input, (int)dim, inputs[input]);
}

amp_status amp_free_extents_read(amp_free_extents *f, const amp_graph_source *s, amp_tensor *const *inputs,
                                 const char *words) {
    const size_t places = (size_t)s->input_count * AMP_MAX_RANK;
    *f = (amp_free_extents){.which = amp_alloc(places + 1), .text = amp_alloc(strlen(words) + 1)};
    if (!f->which || !f->text) return amp_fail(AMP_ERROR_MEMORY, "graph_save: %s: no memory for extents", s->name);
    memset(f->which, FIXED, places);
    if (strcmp(words, "*") == 0) return read_models(f, s, inputs);
    memcpy(f->text, words, strlen(words) + 1);
    for (char *word = f->text, *next; word && *word; word = next) {
        next = strchr(word, ',');
        if (next) *next++ = 0;
        AMP_TRY(read_word(f, s, inputs, word));
    }
    return AMP_OK;
}

void amp_free_extents_end(amp_free_extents *f) {
    amp_free(f->which);
    amp_free(f->text);
    *f = (amp_free_extents){0};
}

/* ---- Inputs of other extents ------------------------------------------------------------------------------------- */

/* Its elements again and again, so that they stay what the graph can take: indices, masks. */
static amp_tensor *repeat(amp_tensor *t, int dim, int64_t size) {
    if (t->shape[dim] == size) return t;
    amp_tensor *places = amp_arange(amp_int(size), .dtype = AMP_I64);
    places = amp_remainder_scalar(places, amp_int(t->shape[dim]));
    return amp_index_select(t, dim, amp_to_device(places, amp_tensor_device(t)));
}

/* What libamp computes for itself, no region sees. */
static amp_status make_inputs(const amp_free_extents *f, const amp_graph_source *s, const int64_t *sizes,
                              amp_tensor *const *inputs, amp_tensor **made) {
    const unsigned layers = amp_this_thread.layers;
    amp_this_thread.layers = 0;
    for (int i = 0; i < s->input_count; i++) {
        made[i] = inputs[i];
        for (int d = 0; made[i] && d < inputs[i]->rank; d++) {
            const int which = *place(f, i, d);
            if (which >= 0) made[i] = repeat(made[i], d, sizes[which]);
        }
    }
    amp_this_thread.layers = layers;
    return amp_pending_error();
}

amp_status amp_free_extents_inputs(const amp_free_extents *f, const amp_graph_source *s, int capture,
                                   amp_tensor *const *inputs, amp_tensor **made) {
    int64_t sizes[AMP_FREE_EXTENTS];
    for (int i = 0; i < f->count; i++) sizes[i] = f->items[i].sizes[capture];
    return make_inputs(f, s, sizes, inputs, made);
}

/* ---- Sizes ------------------------------------------------------------------------------------------------------- */

/* Whether the graph can be captured so. */
static amp_status try_sizes(const amp_free_extents *f, const amp_graph *graph, const int64_t *sizes,
                            amp_tensor *const *inputs) {
    const amp_graph_source *s = amp_graph_source_of(graph);
    amp_tensor **made = amp_alloc(((size_t)s->input_count + 1) * sizeof *made);
    amp_record record = {0};
    amp_scope_frame frame;
    if (!made) return amp_fail(AMP_ERROR_MEMORY, "graph_save: %s: no memory for inputs", s->name);
    amp_scope_push(&frame);
    amp_status status = make_inputs(f, s, sizes, inputs, made);
    if (status == AMP_OK) status = amp_record_capture(&record, graph, made, s->input_count);
    amp_record_end(&record);
    amp_scope_pop(&frame);
    amp_free(made);
    return status;
}

/* One extent alone in all its sizes. */
static amp_status try_extent(const amp_free_extents *f, int which, const amp_graph *graph, amp_tensor *const *inputs) {
    int64_t sizes[AMP_FREE_EXTENTS];
    for (int i = 0; i < f->count; i++) sizes[i] = f->items[i].given;
    for (int c = 0; c < AMP_EXTENT_CAPTURES; c++) {
        sizes[which] = f->items[which].sizes[c];
        AMP_TRY(try_sizes(f, graph, sizes, inputs));
    }
    return AMP_OK;
}

/* Never 1, which ops treat in ways of its own; no two extents change alike. */
static bool set_sizes(amp_free_extent *e, int which, int64_t step) {
    static const int steps[][AMP_EXTENT_CAPTURES] = {{0, 1, 3, 6}, {0, 3, 2, 7}, {0, 2, 5, 3}, {0, 5, 1, 4}};
    const int64_t first = e->given > 1 ? e->given : step > 1 ? step : 2;
    bool fits = true;
    for (int c = 0; c < AMP_EXTENT_CAPTURES; c++) {
        e->sizes[c] = first + step * (steps[which % 4][c] + (which / 4) * c);
        fits = fits && e->sizes[c] > 1;
    }
    return fits;
}

/* The least step that the graph takes: networks that halve an image again and again want multiples of 32. */
static amp_status choose(amp_free_extents *f, int which, const amp_graph *graph, amp_tensor *const *inputs, char *why,
                         size_t room) {
    static const int64_t steps[] = {1, -1, 2, -2, 4, -4, 8, -8, 16, -16, 32, -32, 64, -64};
    amp_status status = AMP_ERROR_NOT_IMPLEMENTED;
    for (size_t i = 0; status != AMP_OK && i < sizeof steps / sizeof *steps; i++) {
        if (!set_sizes(&f->items[which], which, steps[i])) continue;
        const bool was_trying = amp_this_thread.is_trying;
        amp_this_thread.is_trying = true;
        status = try_extent(f, which, graph, inputs);
        amp_this_thread.is_trying = was_trying;
        if (status == AMP_OK) break;
        if (i == 0) snprintf(why, room, "%s", amp_last_error());
        amp_clear_error();
        if (status == AMP_ERROR_MEMORY) break;
    }
    return status;
}

static void fix(amp_free_extents *f, const amp_graph_source *s, int which) {
    for (int i = 0; i < s->input_count * AMP_MAX_RANK; i++) {
        if (f->which[i] == which) f->which[i] = FIXED;
        if (f->which[i] > which) f->which[i]--;
    }
    f->count--;
    memmove(&f->items[which], &f->items[which + 1], (size_t)(f->count - which) * sizeof f->items[0]);
    memmove(&f->names[which], &f->names[which + 1], (size_t)(f->count - which) * sizeof f->names[0]);
}

amp_status amp_free_extents_choose(amp_free_extents *f, const amp_graph *graph, amp_tensor *const *inputs) {
    enum { WHY = 512 };
    const amp_graph_source *s = amp_graph_source_of(graph);
    char why[WHY] = "";
    for (int i = 0; i < f->count; i++) {
        if (choose(f, i, graph, inputs, why, sizeof why) == AMP_OK) continue;
        if (!f->is_models)
            return amp_fail(
                AMP_ERROR_NOT_IMPLEMENTED,
                "graph_save: %s: the extent '%s' cannot be free, for the graph takes no other than %lld: %s; "
                "save it fixed",
                s->name, f->items[i].name, (long long)f->items[i].given, why);
        fix(f, s, i--);
    }
    return AMP_OK;
}
