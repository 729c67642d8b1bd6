/* amp info --kernels: the kernel that each family runs on this machine, and why not a better one. */
#include "info_kernels.h"

#include <stdio.h>

#include "amp/amp.h"
#include "cpu/registry/kernels.h"

enum { MAX_REFUSALS = 8 };

/* One (family, in, out): the row that runs, and those above it that do not. */
typedef struct selection {
    const amp_kernel *kernel;
    amp_kernel_refusal refusals[MAX_REFUSALS];
    int refused;
} selection;

static bool is_first_of_its_kind(int row) {
    const amp_kernel *k = amp_kernel_at(row), *above = row > 0 ? amp_kernel_at(row - 1) : NULL;
    return !above || above->family != k->family || above->in != k->in || above->out != k->out;
}

static selection select_from(int row) {
    const amp_kernel *k = amp_kernel_at(row);
    selection s = {.kernel = amp_kernel_select(k->family, k->in, k->out)};
    s.refused = amp_kernel_refusals(k->family, k->in, k->out, NULL, s.refusals, MAX_REFUSALS);
    if (s.refused > MAX_REFUSALS) s.refused = MAX_REFUSALS;
    return s;
}

static const char *function_of(const selection *s) {
    return s->kernel ? s->kernel->name : "none";
}

static void print_selection(int row) {
    const amp_kernel *k = amp_kernel_at(row);
    const selection s = select_from(row);
    char types[32];
    snprintf(types, sizeof types, "%s -> %s", amp_dtype_name(k->in), amp_dtype_name(k->out));
    printf("  %-20s %-12s %s\n", amp_kernel_family_name(k->family), types, function_of(&s));
    for (int i = 0; i < s.refused; i++)
        printf("  %-20s %-12s   not %s: %s\n", "", "", s.refusals[i].kernel->name, s.refusals[i].reason);
    if (s.kernel && s.kernel->requirement)
        printf("  %-20s %-12s   it runs only where %s, else the next\n", "", "", s.kernel->requirement);
}

void amp_print_kernels(void) {
    printf("\nKernels\n");
    for (int i = 0; i < amp_kernel_count(); i++) {
        if (is_first_of_its_kind(i)) print_selection(i);
    }
}

json_t *amp_kernels_json(void) {
    json_t *list = json_array();
    for (int i = 0; i < amp_kernel_count(); i++) {
        if (!is_first_of_its_kind(i)) continue;
        const amp_kernel *k = amp_kernel_at(i);
        const selection s = select_from(i);
        json_t *refused = json_array();
        for (int j = 0; j < s.refused; j++)
            json_array_append_new(
                refused, json_pack("{s:s, s:s}", "kernel", s.refusals[j].kernel->name, "reason", s.refusals[j].reason));
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s, s:o}", "family", amp_kernel_family_name(k->family),
                                              "in", amp_dtype_name(k->in), "out", amp_dtype_name(k->out), "kernel",
                                              function_of(&s), "refused", refused));
    }
    return list;
}

json_t *amp_kernel_rows_json(void) {
    int tested = 0;
    for (int i = 0; i < amp_kernel_count(); i++) tested += amp_kernel_usable(amp_kernel_at(i), NULL);
    amp_kernel_refusal refusals[MAX_REFUSALS];
    const int count = amp_kernel_quarantined(refusals, MAX_REFUSALS);
    json_t *failed = json_array();
    for (int i = 0; i < count && i < MAX_REFUSALS; i++)
        json_array_append_new(
            failed, json_pack("{s:s, s:s}", "kernel", refusals[i].kernel->name, "reason", refusals[i].reason));
    return json_pack("{s:i, s:i, s:o}", "tested", tested + count, "failed_count", count, "failed", failed);
}
