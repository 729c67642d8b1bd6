#include "onnx/write/extent_terms.h"

#include <string.h>

enum { CAPTURES = AMP_EXTENT_CAPTURES };

bool amp_term_is_same(const amp_term *a, const amp_term *b) {
    return memcmp(a->of, b->of, sizeof a->of) == 0;
}

bool amp_term_is_fixed(const amp_term *t) {
    for (int c = 1; c < CAPTURES; c++) {
        if (t->of[c] != t->of[0]) return false;
    }
    return true;
}

int amp_free_twin(const amp_free_writer *g, int capture, int value) {
    const amp_made_value *v = &g->w[0].values[value];
    const amp_writer *w = &g->w[capture];
    if (v->input >= 0) {
        for (int i = 0; i < w->value_count; i++) {
            if (w->values[i].input == v->input) return i;
        }
    }
    if (v->node < 0) return AMP_MADE_NONE;
    const amp_made_node *made = &g->w[0].nodes[v->node];
    for (int i = 0; i < made->output_count; i++) {
        if (made->outputs[i] == value) return w->nodes[v->node].outputs[i];
    }
    return AMP_MADE_NONE;
}

amp_term amp_term_of_extent(const amp_free_writer *g, int value, int dim) {
    amp_term t;
    for (int c = 0; c < CAPTURES; c++) {
        const int twin = amp_free_twin(g, c, value);
        t.of[c] = twin >= 0 && dim < g->w[c].values[twin].rank ? g->w[c].values[twin].shape[dim] : AMP_MADE_OPEN;
    }
    return t;
}

static amp_term term_of_name(const amp_free_writer *g, int which) {
    amp_term t;
    memcpy(t.of, g->extents->items[which].sizes, sizeof t.of);
    return t;
}

int64_t amp_term_as_extent(const amp_free_writer *g, const amp_term *t) {
    if (amp_term_is_fixed(t)) return t->of[0];
    for (int i = 0; i < g->extents->count; i++) {
        const amp_term name = term_of_name(g, i);
        if (amp_term_is_same(t, &name)) return AMP_MADE_OPEN - 1 - i;
    }
    return AMP_MADE_OPEN;
}

/* ---- Nodes ------------------------------------------------------------------------------------------------------ */

static const amp_made_shape one = {.dtype = AMP_I64, .rank = 1, .extents = {1}};

static int write_extent(amp_free_writer *g, int value, int dim) {
    const int made = AMP_MADE(g->to, "Shape", &one, g->known[value]);
    amp_made_int(g->to, "end", dim + 1);
    amp_made_int(g->to, "start", dim);
    return made;
}

static int write_name(amp_free_writer *g, int which) {
    const amp_free_extent *e = &g->extents->items[which];
    return write_extent(g, g->inputs[e->input], e->dim);
}

static int write_with(amp_free_writer *g, const char *type, int value, int64_t number, int64_t none) {
    if (value < 0 || number == none) return value;
    return AMP_MADE(g->to, type, &one, value, amp_made_integers(g->to, &number, 1));
}

/* ---- Formulas ---------------------------------------------------------------------------------------------------- */

/* t = factor · of + more, in all captures. */
static bool is_affine(const amp_term *t, const amp_term *of, int64_t *factor, int64_t *more) {
    int c = 1;
    while (c < CAPTURES && of->of[c] == of->of[0]) c++;
    if (c == CAPTURES) return false;
    const int64_t way = of->of[c] - of->of[0], by = t->of[c] - t->of[0];
    if (by == 0 || by % way != 0) return false;
    *factor = by / way;
    *more = t->of[0] - *factor * of->of[0];
    for (c = 0; c < CAPTURES; c++) {
        if (*factor * of->of[c] + *more != t->of[c]) return false;
    }
    return true;
}

static int write_affine(amp_free_writer *g, int value, int64_t factor, int64_t more) {
    return write_with(g, "Add", write_with(g, "Mul", value, factor, 1), more, 0);
}

/* Of a product of named extents: "4 · batch · length + 1"; the fewest first. */
static int from_names(amp_free_writer *g, const amp_term *t) {
    const int all = 1 << g->extents->count;
    for (int degree = 1; degree <= 3; degree++) {
        for (int set = 1; set < all; set++) {
            amp_term product = {{1, 1, 1, 1}};
            int64_t factor, more;
            int value = AMP_MADE_NONE;
            if (__builtin_popcount((unsigned)set) != degree) continue;
            for (int i = 0; i < g->extents->count; i++) {
                for (int c = 0; set >> i & 1 && c < CAPTURES; c++) product.of[c] *= g->extents->items[i].sizes[c];
            }
            if (!is_affine(t, &product, &factor, &more)) continue;
            for (int i = 0; i < g->extents->count; i++) {
                if (!(set >> i & 1)) continue;
                const int name = write_name(g, i);
                value = value < 0 ? name : AMP_MADE(g->to, "Mul", &one, value, name);
            }
            return write_affine(g, value, factor, more);
        }
    }
    return AMP_MADE_NONE;
}

/* Of two: "past + length". */
static int from_sums(amp_free_writer *g, const amp_term *t) {
    for (int i = 0; i < g->extents->count; i++) {
        const amp_term name = term_of_name(g, i);
        amp_term rest;
        for (int c = 0; c < CAPTURES; c++) rest.of[c] = t->of[c] - name.of[c];
        for (int j = 0; j < g->extents->count; j++) {
            const amp_term other = term_of_name(g, j);
            int64_t factor, more;
            if (j == i || !is_affine(&rest, &other, &factor, &more)) continue;
            const int sum = write_affine(g, write_name(g, j), factor, more);
            return AMP_MADE(g->to, "Add", &one, write_name(g, i), sum);
        }
    }
    return AMP_MADE_NONE;
}

/* Of an extent of one value, or of two that lie beside one another. */
static int from_value(amp_free_writer *g, const amp_term *t, int value) {
    const int rank = value >= 0 && !g->w[0].values[value].constant ? g->w[0].values[value].rank : 0;
    int64_t factor, more;
    for (int d = 0; d < rank; d++) {
        const amp_term extent = amp_term_of_extent(g, value, d);
        if (is_affine(t, &extent, &factor, &more)) return write_affine(g, write_extent(g, value, d), factor, more);
    }
    for (int d = 0; d + 1 < rank; d++) {
        amp_term product = amp_term_of_extent(g, value, d);
        const amp_term next = amp_term_of_extent(g, value, d + 1);
        for (int c = 0; c < CAPTURES; c++) product.of[c] *= next.of[c];
        if (!is_affine(t, &product, &factor, &more)) continue;
        const int made = AMP_MADE(g->to, "Mul", &one, write_extent(g, value, d), write_extent(g, value, d + 1));
        return write_affine(g, made, factor, more);
    }
    return AMP_MADE_NONE;
}

static int from_equal_extent(amp_free_writer *g, const amp_term *t, int value) {
    const int rank = value >= 0 && !g->w[0].values[value].constant ? g->w[0].values[value].rank : 0;
    for (int d = 0; d < rank; d++) {
        const amp_term extent = amp_term_of_extent(g, value, d);
        if (amp_term_is_same(t, &extent)) return write_extent(g, value, d);
    }
    return AMP_MADE_NONE;
}

/* Of what has been made before, the nearest first: the extent behind a stride follows from none by whole numbers. */
static int from_before(amp_free_writer *g, const amp_term *t) {
    for (int k = g->node - 1; k >= 0; k--) {
        const amp_made_node *node = &g->w[0].nodes[k];
        for (int i = 0; node->type && i < node->output_count; i++) {
            if (!g->w[0].values[node->outputs[i]].used) continue;
            const int value = from_equal_extent(g, t, node->outputs[i]);
            if (value >= 0) return value;
        }
    }
    return AMP_MADE_NONE;
}

static int write_term(amp_free_writer *g, const amp_term *t) {
    const bool inside = g->node < g->w[0].node_count;
    const amp_made_node *node = inside ? &g->w[0].nodes[g->node] : NULL;
    if (amp_term_is_fixed(t)) return amp_made_integers(g->to, &t->of[0], 1);
    int value = from_names(g, t);
    for (int i = 0; node && value < 0 && i < node->input_count; i++) value = from_equal_extent(g, t, node->inputs[i]);
    if (value < 0) value = from_before(g, t);
    for (int i = 0; node && value < 0 && i < node->input_count; i++) value = from_value(g, t, node->inputs[i]);
    return value < 0 ? from_sums(g, t) : value;
}

int amp_terms_write(amp_free_writer *g, const amp_term *terms, int count) {
    enum { MOST = 64 };
    int parts[MOST], part_count = 0;
    int64_t fixed[MOST];
    if (count > MOST) return AMP_MADE_NONE;
    for (int i = 0; i < count;) {
        int run = 0; /* fixed numbers beside one another are one constant */
        while (i + run < count && amp_term_is_fixed(&terms[i + run])) fixed[run] = terms[i + run].of[0], run++;
        const int part = run > 0 ? amp_made_integers(g->to, fixed, run) : write_term(g, &terms[i]);
        if (part < 0) return AMP_MADE_NONE;
        parts[part_count++] = part;
        i += run > 0 ? run : 1;
    }
    if (part_count == 1) return parts[0];
    const int64_t extent = count;
    const amp_made_shape shape = amp_made_shape_from(AMP_I64, 1, &extent);
    const int vector = amp_made_node_of(g->to, "Concat", parts, part_count, &shape);
    amp_made_int(g->to, "axis", 0);
    return vector;
}
