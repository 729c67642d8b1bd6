/* amp explain model.onnx: who makes each value, and who reads it. */
#include <stdlib.h>

#include "page.h"

static void count(page_values *v, const page_operand *operands, int its) {
    for (int i = 0; i < its; i++) {
        if (operands[i].value >= v->count) v->count = operands[i].value + 1;
    }
}

static int *places(int many) {
    int *list = malloc(((size_t)many + 1) * sizeof *list);
    for (int i = 0; list && i < many; i++) list[i] = -1;
    return list;
}

static void note_makers(page_values *v, const page_steps *steps) {
    for (int i = 0; i < steps->count; i++) {
        for (int k = 0; k < steps->items[i].result_count; k++) {
            const int value = steps->items[i].results[k].value;
            if (value >= 0) v->maker[value] = i;
        }
    }
}

/* From the last to the first, so that each list begins with the first. */
static void note_readers(page_values *v, const page_steps *steps) {
    int at = 0;
    for (int i = steps->count; i-- > 0;) {
        for (int k = 0; k < steps->items[i].operand_count; k++) {
            const int value = steps->items[i].operands[k].value;
            if (value < 0 || (v->first[value] >= 0 && v->reader[v->first[value]] == i)) continue;
            v->reader[at] = i;
            v->next[at] = v->first[value];
            v->first[value] = at++;
        }
    }
}

int page_values_find(page_values *v, const page_steps *steps) {
    int operands = 0;
    for (int i = 0; i < steps->count; i++) {
        count(v, steps->items[i].operands, steps->items[i].operand_count);
        count(v, steps->items[i].results, steps->items[i].result_count);
        operands += steps->items[i].operand_count;
    }
    v->maker = places(v->count);
    v->first = places(v->count);
    v->next = places(operands);
    v->reader = places(operands);
    if (!v->maker || !v->first || !v->next || !v->reader) return run_no_memory();
    note_makers(v, steps);
    note_readers(v, steps);
    return AMP_EXIT_OK;
}

void page_values_free(page_values *v) {
    free(v->maker);
    free(v->first);
    free(v->next);
    free(v->reader);
    *v = (page_values){0};
}
