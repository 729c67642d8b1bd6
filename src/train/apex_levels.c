/* apex's opt levels as a table, and what may override them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "core/struct_size.h"
#include "train/apex.h"

typedef struct level {
    const char *name, *about;
    enum { UNCAST, TO_F32, TO_HALF } cast;
    amp_apex_choice patch, keep_batchnorm, masters;
    bool is_dynamic;
} level;

static const level levels[] = {
    {"O0", "all in f32", TO_F32, AMP_APEX_NO, AMP_APEX_NONE, AMP_APEX_NO, false},
    {"O1", "ops are cast, by their kind", UNCAST, AMP_APEX_YES, AMP_APEX_NONE, AMP_APEX_NONE, true},
    {"O2", "a half model, batch norms and masters in f32", TO_HALF, AMP_APEX_NO, AMP_APEX_YES, AMP_APEX_YES, true},
    {"O3", "all in half", TO_HALF, AMP_APEX_NO, AMP_APEX_NO, AMP_APEX_NO, false},
};

static const char what[] = "initialize";

static const level *find_level(const char *name) {
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        if (strcmp(levels[i].name, name) == 0) return &levels[i];
    }
    (void)amp_fail(
        AMP_ERROR_INVALID,
        "%s: there is no opt_level '%.40s'; expected O0, O1, O2 or O3, with the letter O and no zero in front", what,
        name);
    return NULL;
}

static amp_apex_properties properties_of(const level *l, amp_dtype half) {
    return (amp_apex_properties){.enabled = true,
                                 .level = l->name,
                                 .cast_model_type = l->cast == TO_HALF  ? half
                                                    : l->cast == TO_F32 ? AMP_F32
                                                                        : AMP_DTYPE_NONE,
                                 .patch = l->patch,
                                 .keep_batchnorm = l->keep_batchnorm,
                                 .masters = l->masters,
                                 .is_dynamic = l->is_dynamic,
                                 .loss_scale = 1,
                                 .max_scale = 16777216,
                                 .cast_outputs = l->cast == UNCAST ? AMP_DTYPE_NONE : AMP_F32,
                                 .num_losses = 1};
}

/* ---- Overrides, in the order of the struct -------------------------------------------------------------------------- */
static bool is_o1(const amp_apex_properties *p) {
    return strcmp(p->level, "O1") == 0;
}

static amp_status fail_at_o1(const char *option, const char *why) {
    return amp_fail(AMP_ERROR_INVALID, "%s: %s makes no sense at O1: %s", what, option, why);
}

static amp_status read_choice(const char *name, amp_opt_bool given, amp_apex_choice *choice) {
    AMP_TRY(amp_struct_mark(what, name, given.set, !given.value));
    if (given.set) *choice = given.value ? AMP_APEX_YES : AMP_APEX_NO;
    return AMP_OK;
}

static amp_status override_cast(const amp_initialize_args *a, amp_apex_properties *p) {
    amp_apex_choice casts = AMP_APEX_NONE;
    AMP_TRY(read_choice("cast_model", a->cast_model, &casts));
    const amp_dtype type = a->cast_model_type;
    if (type != AMP_DTYPE_NONE && type != AMP_F32 && type != AMP_F16 && type != AMP_BF16)
        return amp_fail(AMP_ERROR_INVALID, "%s: cast_model_type is %s; expected f32, f16 or bf16", what,
                        amp_dtype_name(type));
    if (type != AMP_DTYPE_NONE && type != AMP_F32 && is_o1(p))
        return fail_at_o1("cast_model_type", "there ops are cast, and the model's weights stay f32");
    if (type != AMP_DTYPE_NONE) p->cast_model_type = type;
    if (casts == AMP_APEX_NO) p->cast_model_type = p->cast_outputs = AMP_DTYPE_NONE;
    return AMP_OK;
}

static amp_status override_patch(const amp_initialize_args *a, amp_apex_properties *p) {
    AMP_TRY(read_choice("patch_functions", a->patch_functions, &p->patch));
    if (p->patch != AMP_APEX_YES || is_o1(p)) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID,
                    "%s: patch_functions is O1's alone; at %s the model's types decide what ops run in", what,
                    p->level);
}

static amp_status override_batchnorm(const amp_initialize_args *a, amp_apex_properties *p) {
    const amp_apex_choice before = p->keep_batchnorm;
    AMP_TRY(read_choice("keep_batchnorm_fp32", a->keep_batchnorm_fp32, &p->keep_batchnorm));
    if (!is_o1(p) || p->keep_batchnorm == before) return AMP_OK;
    return fail_at_o1("keep_batchnorm_fp32", "there all weights stay f32, and batch norms run as their inputs are");
}

static amp_status override_masters(const amp_initialize_args *a, amp_apex_properties *p) {
    const amp_apex_choice before = p->masters;
    AMP_TRY(read_choice("master_weights", a->master_weights, &p->masters));
    if (!is_o1(p) || p->masters == before) return AMP_OK;
    return fail_at_o1("master_weights", "there the weights that are updated are f32 already");
}

/* bf16 has f32's range: there a level's own scale is 1. */
static void settle_scale(amp_apex_properties *p, amp_dtype half) {
    const amp_dtype type = p->cast_model_type == AMP_DTYPE_NONE ? half : p->cast_model_type;
    p->is_dynamic = p->is_dynamic && type == AMP_F16;
}

static amp_status override_scale(const amp_initialize_args *a, amp_apex_properties *p) {
    if (!a->loss_scale) return AMP_OK;
    p->is_dynamic = strcmp(a->loss_scale, "dynamic") == 0;
    if (p->is_dynamic) return AMP_OK;
    char *end = NULL;
    p->loss_scale = strtod(a->loss_scale, &end);
    if (end != a->loss_scale && *end == 0 && p->loss_scale > 0 && isfinite(p->loss_scale)) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: loss_scale is '%.40s'; expected \"dynamic\" or a number above 0", what,
                    a->loss_scale);
}

static amp_status read_bound(const char *name, amp_opt_float given, double *bound) {
    AMP_TRY(amp_struct_mark(what, name, given.set, given.value == 0));
    if (given.set && !(given.value > 0 && isfinite(given.value)))
        return amp_fail(AMP_ERROR_INVALID, "%s: %s is %g; expected a finite number above 0", what, name, given.value);
    if (given.set) *bound = given.value;
    return AMP_OK;
}

static amp_status override_rest(const amp_initialize_args *a, amp_apex_properties *p) {
    const amp_dtype out = a->cast_model_outputs;
    if (out != AMP_DTYPE_NONE && !amp_dtype_is_floating(out))
        return amp_fail(AMP_ERROR_INVALID, "%s: cast_model_outputs is %s; expected a floating dtype", what,
                        amp_dtype_name(out));
    if (out != AMP_DTYPE_NONE) p->cast_outputs = out;
    AMP_TRY(amp_struct_mark(what, "num_losses", a->num_losses.set, a->num_losses.value == 0));
    if (a->num_losses.set) {
        if (a->num_losses.value < 1 || a->num_losses.value > 1024)
            return amp_fail(AMP_ERROR_INVALID, "%s: num_losses is %lld; expected 1 to 1024", what,
                            (long long)a->num_losses.value);
        p->num_losses = (int)a->num_losses.value;
    }
    AMP_TRY(read_bound("min_loss_scale", a->min_loss_scale, &p->min_scale));
    AMP_TRY(read_bound("max_loss_scale", a->max_loss_scale, &p->max_scale));
    if (p->min_scale <= p->max_scale) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: min_loss_scale is %g, above max_loss_scale, %g", what, p->min_scale,
                    p->max_scale);
}

/* ---- The text ------------------------------------------------------------------------------------------------------- */
static const char *word_of(amp_apex_choice choice) {
    static const char *const words[] = {"none", "false", "true"};
    return words[choice];
}

static int write_properties(char *text, size_t bytes, const char *heading, const amp_apex_properties *p) {
    char scale[32] = "dynamic";
    if (!p->is_dynamic) snprintf(scale, sizeof scale, "%g", p->loss_scale);
    return snprintf(text, bytes,
                    "%s\n  cast_model_type      %s\n  patch_functions      %s\n  keep_batchnorm_fp32  %s\n"
                    "  master_weights       %s\n  loss_scale           %s\n",
                    heading, p->cast_model_type == AMP_DTYPE_NONE ? "none" : amp_dtype_name(p->cast_model_type),
                    word_of(p->patch), word_of(p->keep_batchnorm), word_of(p->masters), scale);
}

/* "O2: a half model, …", the level's own properties, and those that hold. */
static char *describe(const level *l, const amp_apex_properties *before, const amp_apex_properties *after) {
    enum { BYTES = 1024 };
    char *text = amp_alloc(BYTES), heading[128];
    if (!text) return NULL;
    snprintf(heading, sizeof heading, "%s: %s", l->name, l->about);
    const size_t used = (size_t)write_properties(text, BYTES, heading, before);
    (void)write_properties(text + used, BYTES - used, "with what was overridden:", after);
    const size_t own = strlen(heading), all = strlen("with what was overridden:");
    if (strncmp(text + own, text + used + all, used - own) == 0)
        snprintf(text + used, BYTES - used, "nothing was overridden\n");
    return text;
}

amp_status amp_apex_properties_read(const amp_initialize_args *a, amp_dtype half, amp_apex_properties *p, char **text) {
    typedef amp_status (*override_function)(const amp_initialize_args *, amp_apex_properties *);
    static const override_function overrides[] = {override_cast, override_patch, override_batchnorm, override_masters};
    amp_apex_choice enabled = AMP_APEX_YES;
    AMP_TRY(read_choice("enabled", a->enabled, &enabled));
    const level *l = find_level(a->opt_level ? a->opt_level : "O1");
    if (!l) return amp_pending_error();
    *p = properties_of(l, half);
    amp_apex_properties before = *p;
    settle_scale(&before, half);
    for (size_t i = 0; i < sizeof overrides / sizeof *overrides; i++) AMP_TRY(overrides[i](a, p));
    settle_scale(p, half);
    AMP_TRY(override_scale(a, p));
    AMP_TRY(override_rest(a, p));
    p->enabled = enabled == AMP_APEX_YES;
    *text = describe(l, &before, p);
    return *text ? AMP_OK : amp_fail(AMP_ERROR_MEMORY, "%s: no memory", what);
}
