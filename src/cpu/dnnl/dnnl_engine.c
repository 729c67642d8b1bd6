/* The engine, kept names and reorders of oneDNN. */
#include "cpu/dnnl/dnnl_engine.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "core/lock.h"
#include "core/memory.h"

enum { NAME_SIZE = 64 };

static struct {
    pthread_once_t once;
    dnnl_engine_t engine;
    struct name {
        struct name *next;
        char text[NAME_SIZE];
    } * names;
} state = {.once = PTHREAD_ONCE_INIT};

static void make_engine(void) {
    if (dnnl_engine_create(&state.engine, dnnl_cpu, 0) != dnnl_success) state.engine = NULL;
}

dnnl_engine_t amp_dnnl_engine(void) {
    pthread_once(&state.once, make_engine);
    return state.engine;
}

const char *amp_dnnl_name(const_dnnl_primitive_desc_t descriptor) {
    char text[NAME_SIZE] = "dnnl:";
    const char *implementation = "?";
    dnnl_primitive_desc_query(descriptor, dnnl_query_impl_info_str, 0, &implementation);
    strncat(text, implementation, NAME_SIZE - strlen(text) - 1);
    for (struct name *i = state.names; i; i = i->next)
        if (!strcmp(i->text, text)) return i->text;
    struct name *made = amp_alloc(sizeof *made);
    if (!made) return "dnnl";
    memcpy(made->text, text, NAME_SIZE);
    made->next = state.names;
    state.names = made;
    return made->text;
}

static atomic_int use;

amp_dnnl_use amp_dnnl_use_now(void) {
    return (amp_dnnl_use)atomic_load_explicit(&use, memory_order_relaxed);
}

void amp_dnnl_use_for_test(amp_dnnl_use wanted) {
    atomic_store(&use, (int)wanted);
}

bool amp_dnnl_has_room(void) {
    enum { ROOM = 8 << 20 };
    void *room = malloc(ROOM);
    __asm__ volatile("" : : "r"(room) : "memory"); /* no compiler knows better */
    free(room);
    return room != NULL;
}

static dnnl_status_t make_reorder(const_dnnl_memory_desc_t from, const_dnnl_memory_desc_t to,
                                  dnnl_primitive_t *primitive) {
    dnnl_primitive_desc_t descriptor = NULL;
    if (!amp_dnnl_has_room()) return dnnl_out_of_memory;
    amp_lock(AMP_LOCK_DNNL_MAKING);
    dnnl_status_t s = dnnl_reorder_primitive_desc_create(&descriptor, from, state.engine, to, state.engine, NULL);
    if (s == dnnl_success) s = dnnl_primitive_create(primitive, descriptor);
    if (descriptor) dnnl_primitive_desc_destroy(descriptor);
    amp_unlock(AMP_LOCK_DNNL_MAKING);
    return s;
}

dnnl_status_t amp_dnnl_reorder(const_dnnl_memory_desc_t from, void *source, const_dnnl_memory_desc_t to, void *target) {
    dnnl_primitive_t primitive = NULL;
    dnnl_memory_t src = NULL, dst = NULL;
    dnnl_stream_t stream = NULL;
    dnnl_status_t s = make_reorder(from, to, &primitive);
    if (s == dnnl_success) s = dnnl_memory_create(&src, from, state.engine, source);
    if (s == dnnl_success) s = dnnl_memory_create(&dst, to, state.engine, target);
    if (s == dnnl_success) s = dnnl_stream_create(&stream, state.engine, dnnl_stream_default_flags);
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, src}, {DNNL_ARG_TO, dst}};
    if (s == dnnl_success) s = dnnl_primitive_execute(primitive, stream, 2, arguments);
    if (s == dnnl_success) s = dnnl_stream_wait(stream);
    if (stream) dnnl_stream_destroy(stream);
    if (dst) dnnl_memory_destroy(dst);
    if (src) dnnl_memory_destroy(src);
    if (primitive) dnnl_primitive_destroy(primitive);
    return s;
}
