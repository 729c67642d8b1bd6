/* Checkpoints: what each part of a run is in a file. */
#include "amp/training.h"

#include <stddef.h>
#include <stdio.h>

#include "amp/random.h"
#include "core/struct_size.h"
#include "train/grad_scaler.h"
#include "train/lbfgs.h"
#include "train/optimizer.h"
#include "train/scheduler.h"
#include "train/training.h"

static const char format_name[] = "amp-training", format_version[] = "1";

enum { PART_NAME = 24 };

/* ---- Numbers -------------------------------------------------------------------------------------------------------- */
static amp_status find(const amp_loading *l, const amp_named *from, const char *name, amp_dtype dtype, int64_t count,
                       amp_tensor **found) {
    *found = amp_named_find(from, name);
    if (!*found) return amp_fail(AMP_ERROR_INVALID, "%s: the file has no '%s'", l->what, name);
    if ((*found)->dtype == dtype && amp_tensor_elements(*found) == count) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is %s in the file; expected %lld of %s", l->what, name,
                    amp_describe(*found), (long long)count, amp_dtype_name(dtype));
}

/* f64 or i64, as `dtype` says. */
static amp_status read_numbers(const amp_loading *l, const amp_named *from, const char *name, amp_dtype dtype,
                               void *numbers, int64_t count) {
    amp_tensor *t = NULL;
    AMP_TRY(find(l, from, name, dtype, count, &t));
    return amp_read(t, dtype, numbers, (size_t)count * amp_dtype_size(dtype));
}

/* ---- Optimizers ----------------------------------------------------------------------------------------------------- */
static const char *optimizer_kind(const void *object) {
    return ((const amp_optimizer *)object)->algorithm->name;
}

static amp_status gather_state(amp_state state, const char *name, amp_named *list) {
    amp_status status = amp_pending_error();
    for (int64_t i = 0; i < state.count && status == AMP_OK; i++)
        status = amp_named_add(list, name, state.names[i], state.tensors[i]);
    amp_state_free(state);
    return status;
}

static amp_status gather_optimizer(const char *what, void *object, const char *name, amp_named *list) {
    (void)what;
    return gather_state(amp_optimizer_state(object), name, list);
}

static amp_status note_optimizer(amp_loading *l, void *object, const amp_named *from) {
    return amp_optimizer_note_state(l, object, (const char *const *)from->names, from->tensors, from->count);
}

/* ---- Schedulers ------------------------------------------------------------------------------------------------------ */
static const char *scheduler_kind(const void *object) {
    return amp_scheduler_name(object);
}

static amp_status gather_scheduler(const char *what, void *object, const char *name, amp_named *list) {
    const amp_scheduler *s = object;
    (void)what;
    AMP_TRY(amp_named_add_wholes(list, name, "step", &s->step, 0));
    return amp_named_add_numbers(list, name, "initial_lr", s->initial, s->groups);
}

/* The rates of the optimizer are its own options, and come with them. */
static amp_status note_scheduler(amp_loading *l, void *object, const amp_named *from) {
    amp_scheduler *s = object;
    int64_t step = 0;
    amp_tensor *rates = NULL;
    AMP_TRY(read_numbers(l, from, "step", AMP_I64, &step, 1));
    AMP_TRY(amp_scheduler_check_step(l->what, step));
    AMP_TRY(find(l, from, "initial_lr", AMP_F64, s->groups, &rates));
    AMP_TRY(amp_loading_bytes(l, &s->step, &step, sizeof step));
    const double *values = amp_data(rates);
    if (!values) return amp_pending_error();
    for (int64_t i = 0; i < s->groups; i++) AMP_TRY(amp_loading_bytes(l, &s->initial[i], &values[i], sizeof *values));
    return AMP_OK;
}

/* ---- Scalers --------------------------------------------------------------------------------------------------------- */
typedef struct scaler_field {
    const char *name;
    size_t offset; /* in amp_grad_scaler_state */
    amp_dtype dtype;
} scaler_field;
#define FIELD(name, dtype)                                                                                             \
    { #name, offsetof(amp_grad_scaler_state, name), dtype }
static const scaler_field scaler_fields[] = {FIELD(scale, AMP_F64), FIELD(growth_factor, AMP_F64),
                                             FIELD(backoff_factor, AMP_F64), FIELD(growth_interval, AMP_I64),
                                             FIELD(growth_tracker, AMP_I64)};
enum { SCALER_FIELDS = sizeof scaler_fields / sizeof *scaler_fields };

static amp_status gather_scaler(const char *what, void *object, const char *name, amp_named *list) {
    amp_grad_scaler_state state = {.struct_size = sizeof state};
    if (amp_grad_scaler_is_between(object))
        return amp_fail(AMP_ERROR_INVALID, "%s: %s was stepped and not updated; save after amp_grad_scaler_update",
                        what, name);
    AMP_TRY(amp_grad_scaler_get_state(object, &state));
    for (int i = 0; i < SCALER_FIELDS; i++) {
        const scaler_field *f = &scaler_fields[i];
        const void *value = (const char *)&state + f->offset;
        AMP_TRY(f->dtype == AMP_F64 ? amp_named_add_numbers(list, name, f->name, value, 0)
                                    : amp_named_add_wholes(list, name, f->name, value, 0));
    }
    return AMP_OK;
}

static amp_status note_scaler(amp_loading *l, void *object, const amp_named *from) {
    amp_grad_scaler_state state = {.struct_size = sizeof state};
    for (int i = 0; i < SCALER_FIELDS; i++) {
        const scaler_field *f = &scaler_fields[i];
        AMP_TRY(read_numbers(l, from, f->name, f->dtype, (char *)&state + f->offset, 1));
    }
    return amp_grad_scaler_note_state(l, object, &state);
}

/* ---- Generators ------------------------------------------------------------------------------------------------------- */
/* The bits of seed and offset, as the format's signed numbers. */
static amp_status gather_generator_as(amp_generator *generator, const char *first, const char *second,
                                      amp_named *list) {
    amp_generator_state state = {.struct_size = sizeof state};
    AMP_TRY(amp_generator_get_state(generator, &state));
    const int64_t numbers[2] = {(int64_t)state.seed, (int64_t)state.offset};
    return amp_named_add_wholes(list, first, second, numbers, 2);
}

static amp_status gather_generator(const char *what, void *object, const char *name, amp_named *list) {
    (void)what;
    return gather_generator_as(object, name, "state", list);
}

static void set_generator(void *object, const void *state) {
    (void)amp_generator_set_state(object, state);
}

static amp_status note_generator_as(amp_loading *l, amp_generator *generator, const amp_named *from, const char *name) {
    int64_t numbers[2];
    AMP_TRY(read_numbers(l, from, name, AMP_I64, numbers, 2));
    const amp_generator_state state = {sizeof state, (uint64_t)numbers[0], (uint64_t)numbers[1]};
    return amp_loading_set(l, generator, set_generator, &state, sizeof state);
}

static amp_status note_generator(amp_loading *l, void *object, const amp_named *from) {
    return note_generator_as(l, object, from, "state");
}

/* ---- L-BFGS ----------------------------------------------------------------------------------------------------------- */
static amp_status gather_lbfgs(const char *what, void *object, const char *name, amp_named *list) {
    (void)what;
    return gather_state(amp_lbfgs_state(object), name, list);
}

static amp_status note_lbfgs(amp_loading *l, void *object, const amp_named *from) {
    return amp_lbfgs_note_state(l, object, from);
}

/* ---- The parts of a run ------------------------------------------------------------------------------------------------ */
typedef struct part {
    const char *name;                        /* and a number, in the file */
    size_t offset;                           /* of the list in amp_training */
    const char *(*kind)(const void *object); /* must be the same in the file; NULL: there are no kinds */
    amp_status (*gather)(const char *what, void *object, const char *name, amp_named *list);
    amp_status (*note)(amp_loading *l, void *object, const amp_named *from);
} part;

static const part parts[] = {
    {"optimizer", offsetof(amp_training, optimizers), optimizer_kind, gather_optimizer, note_optimizer},
    {"scheduler", offsetof(amp_training, schedulers), scheduler_kind, gather_scheduler, note_scheduler},
    {"scaler", offsetof(amp_training, scalers), NULL, gather_scaler, note_scaler},
    {"generator", offsetof(amp_training, generators), NULL, gather_generator, note_generator},
    {"lbfgs", offsetof(amp_training, lbfgs), NULL, gather_lbfgs, note_lbfgs},
};
enum { PARTS = sizeof parts / sizeof *parts };

/* Part number i of its kind, and its name in the file; NULL: there is none. */
static void *object_of(const amp_training *t, const part *p, int i, char *name) {
    void *object = NULL;
    if (i < AMP_TRAINING_MOST) memcpy(&object, (const char *)t + p->offset + (size_t)i * sizeof object, sizeof object);
    snprintf(name, PART_NAME, "%s%d", p->name, i);
    return object;
}

/* Calls visit(…) of each part of the run. */
typedef amp_status (*part_visitor)(void *context, const part *p, void *object, const char *name);

static amp_status each_part(const amp_training *t, part_visitor visit, void *context) {
    for (int k = 0; k < PARTS; k++) {
        char name[PART_NAME];
        void *object = NULL;
        for (int i = 0; (object = object_of(t, &parts[k], i, name)) != NULL; i++)
            AMP_TRY(visit(context, &parts[k], object, name));
    }
    return AMP_OK;
}

/* ---- Saving ------------------------------------------------------------------------------------------------------------ */
enum { METADATA = 2 + PARTS * AMP_TRAINING_MOST }; /* the format, and a kind of each part */

typedef struct saver {
    const char *what;
    amp_named list;
    char keys[METADATA][PART_NAME];
    const char *metadata[2 * METADATA + 1];
    int entries;
} saver;

static void add_metadata(saver *s, const char *key, const char *value) {
    char *copy = s->keys[s->entries];
    snprintf(copy, PART_NAME, "%s", key);
    s->metadata[2 * s->entries] = copy;
    s->metadata[2 * s->entries++ + 1] = value;
}

static amp_status gather_part(void *context, const part *p, void *object, const char *name) {
    saver *s = context;
    if (p->kind) add_metadata(s, name, p->kind(object));
    return p->gather(s->what, object, name, &s->list);
}

static amp_status gather_model(saver *s, const amp_parameters *p) {
    for (int64_t i = 0; i < amp_parameters_count(p); i++) {
        if (!amp_tensor_is_live(p->items[i].tensor))
            return amp_fail(AMP_ERROR_INVALID, "%s: parameter '%.200s' was released", s->what, p->items[i].name);
        AMP_TRY(amp_named_add(&s->list, "model", p->items[i].name, p->items[i].tensor));
    }
    return AMP_OK;
}

static amp_status gather(saver *s, const amp_training *t) {
    add_metadata(s, "format", format_name);
    add_metadata(s, "version", format_version);
    AMP_TRY(gather_model(s, t->parameters));
    AMP_TRY(each_part(t, gather_part, s));
    for (int d = 0; d < AMP_DEVICE_COUNT; d++) {
        const char *name = amp_device_name((amp_device)d);
        AMP_TRY(gather_generator_as(amp_generator_default((amp_device)d), "random", name, &s->list));
    }
    return t->step ? amp_named_add_wholes(&s->list, "training", "step", t->step, 0) : AMP_OK;
}

static amp_status read_training(const char *what, amp_training *t, const amp_training *given, const char *path) {
    AMP_TRY(amp_pending_error());
    AMP_TRY(amp_struct_read(what, "amp_training", t, sizeof *t, sizeof t->struct_size, given));
    return path ? AMP_OK : amp_fail(AMP_ERROR_INVALID, "%s: the path is NULL", what);
}

/* States that are with other processes would be missing, and a load takes what is missing for a beginning. */
static amp_status check_whole(const char *what, const amp_training *t) {
    for (int i = 0; i < AMP_TRAINING_MOST && t->optimizers[i]; i++) {
        const amp_optimizer_sharing *sharing = &t->optimizers[i]->sharing;
        if (sharing->context && !sharing->is_whole)
            return amp_fail(AMP_ERROR_INVALID,
                            "%s: optimizer%d is sharded among processes; amp_data_parallel_save writes it whole", what,
                            i);
    }
    return AMP_OK;
}

amp_status amp_training_save(const amp_training *given, const char *path) {
    amp_training t;
    saver s = {.what = "training_save"};
    AMP_TRY(read_training(s.what, &t, given, path));
    AMP_TRY(check_whole(s.what, &t));
    amp_status status = gather(&s, &t);
    if (status == AMP_OK) status = amp_named_save(&s.list, s.what, path, s.metadata);
    if (status != AMP_OK) amp_fail_within(s.what);
    amp_named_free(&s.list);
    return status;
}

/* ---- Loading ----------------------------------------------------------------------------------------------------------- */
typedef struct loader {
    amp_safetensors *file;
    amp_loading *loading;
} loader;

static amp_status check_format(const loader *l) {
    const char *format = amp_safetensors_metadata(l->file, "format");
    const char *version = amp_safetensors_metadata(l->file, "version");
    if (!format || strcmp(format, format_name) != 0)
        return amp_fail(AMP_ERROR_IO, "%s: amp_training_save did not write this file", l->loading->what);
    if (version && strcmp(version, format_version) == 0) return AMP_OK;
    return amp_fail(AMP_ERROR_IO, "%s: the file is of version %.20s; this libamp reads %s", l->loading->what,
                    version ? version : "none", format_version);
}

static amp_status check_kind(const loader *l, const part *p, const void *object, const char *name) {
    const char *kind = amp_safetensors_metadata(l->file, name);
    if (!kind) return amp_fail(AMP_ERROR_INVALID, "%s: the file has no %s", l->loading->what, name);
    if (strcmp(kind, p->kind(object)) == 0) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: %s is %.40s in the file, and %s here", l->loading->what, name, kind,
                    p->kind(object));
}

/* Calls note(…) of the tensors that the file has under a name. */
static amp_status note_list(loader *l, const part *p, void *object, const char *name) {
    char what[256];
    const char *const whole = l->loading->what;
    amp_named from = {0};
    snprintf(what, sizeof what, "%s: %s", whole, name);
    amp_status status = amp_named_read(&from, l->file, name);
    l->loading->what = what;
    if (status == AMP_OK && from.count == 0)
        status = amp_fail(AMP_ERROR_INVALID, "%s: the file has no %s", whole, name);
    if (status == AMP_OK) status = p->note(l->loading, object, &from);
    l->loading->what = whole;
    amp_named_free(&from);
    return status;
}

static amp_status note_part(void *context, const part *p, void *object, const char *name) {
    if (p->kind) AMP_TRY(check_kind(context, p, object, name));
    return note_list(context, p, object, name);
}

static amp_status note_model(amp_loading *l, void *object, const amp_named *from) {
    return amp_parameters_note(l, object, from);
}

static amp_status note_random(amp_loading *l, void *object, const amp_named *from) {
    (void)object;
    for (int d = 0; d < AMP_DEVICE_COUNT; d++)
        AMP_TRY(note_generator_as(l, amp_generator_default((amp_device)d), from, amp_device_name((amp_device)d)));
    return AMP_OK;
}

static amp_status note_step(amp_loading *l, void *object, const amp_named *from) {
    int64_t step = 0;
    AMP_TRY(read_numbers(l, from, "step", AMP_I64, &step, 1));
    return amp_loading_bytes(l, object, &step, sizeof step);
}

static bool is_part(const amp_training *t, const char *name, size_t length) {
    char own[PART_NAME];
    for (int k = 0; k < PARTS; k++) {
        for (int i = 0; object_of(t, &parts[k], i, own); i++) {
            if (strlen(own) == length && strncmp(own, name, length) == 0) return true;
        }
    }
    return false;
}

/* What the file has must be somebody's here. */
static amp_status check_nothing_else(const loader *l, const amp_training *t) {
    static const char *const always[] = {"random", "training"};
    for (int64_t i = 0; i < amp_safetensors_count(l->file); i++) {
        const char *name = amp_safetensors_name(l->file, i);
        const size_t length = strcspn(name, ".");
        bool is_known = is_part(t, name, length) || (t->parameters && length == 5 && strncmp(name, "model", 5) == 0);
        for (size_t k = 0; k < sizeof always / sizeof *always && !is_known; k++)
            is_known = strlen(always[k]) == length && strncmp(name, always[k], length) == 0;
        if (!is_known)
            return amp_fail(AMP_ERROR_INVALID, "%s: the file has '%.200s', and there is no %.*s here", l->loading->what,
                            name, (int)length, name);
    }
    return AMP_OK;
}

/* A run that does not ask for its step would begin anew with what was trained. */
static amp_status check_step(const loader *l, const int64_t *step) {
    static const char name[] = "training.step";
    bool is_there = false;
    for (int64_t i = 0; i < amp_safetensors_count(l->file) && !is_there; i++)
        is_there = strcmp(amp_safetensors_name(l->file, i), name) == 0;
    if (is_there == (step != NULL)) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: the file has %s'%s'%s", l->loading->what, is_there ? "" : "no ", name,
                    is_there ? ", and there is no step here" : "");
}

static amp_status note_all(loader *l, const amp_training *t) {
    AMP_TRY(check_format(l));
    AMP_TRY(check_step(l, t->step));
    if (amp_parameters_count(t->parameters) > 0)
        AMP_TRY(note_list(l, &(const part){.note = note_model}, t->parameters, "model"));
    AMP_TRY(each_part(t, note_part, l));
    AMP_TRY(check_nothing_else(l, t));
    AMP_TRY(note_list(l, &(const part){.note = note_random}, NULL, "random"));
    return t->step ? note_list(l, &(const part){.note = note_step}, t->step, "training") : AMP_OK;
}

static amp_status note_file(loader *l, const amp_training *given, const char *path) {
    amp_training t;
    AMP_TRY(read_training("training_load", &t, given, path));
    l->file = amp_safetensors_open(path);
    return l->file ? note_all(l, &t) : amp_pending_error();
}

amp_status amp_training_load_if(const amp_training *given, const char *path,
                                amp_status (*agree)(void *context, amp_status status), void *context) {
    char what[200];
    snprintf(what, sizeof what, "training_load: %.180s", path ? path : "");
    amp_loading loading = {.what = what};
    loader l = {.loading = &loading};
    amp_status status = note_file(&l, given, path);
    if (status == AMP_OK) status = amp_loading_prepare(&loading);
    if (status != AMP_OK) amp_fail_within("training_load");
    if (agree) status = agree(context, status);
    if (status == AMP_OK) amp_loading_put(&loading);
    amp_loading_free(&loading);
    amp_safetensors_close(l.file);
    return status;
}

amp_status amp_training_load(const amp_training *given, const char *path) {
    return amp_training_load_if(given, path, NULL, NULL);
}
