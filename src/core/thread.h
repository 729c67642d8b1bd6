/* The state that every call looks at, one per thread, in one cache line or two. */
#ifndef AMP_CORE_THREAD_H
#define AMP_CORE_THREAD_H

#include "amp/explain.h"
#include "core/tensor_impl.h"

/* Layers of the dispatcher, outermost first. A thread's `layers` has the bits of those that are on; zero, in the
 * common case, sends a call straight to the device table. */
enum {
    AMP_LAYER_EXPLAIN = 1u << 0,
    AMP_LAYER_CAPTURE = 1u << 1, /* calls as they were made, for graphs */
    AMP_LAYER_AUTOCAST = 1u << 2,
    AMP_LAYER_TRACE = 1u << 3,
    AMP_LAYER_GRAD = 1u << 4,
    AMP_LAYER_PLAN = 1u << 5, /* calls as their devices get them, for the plans of graphs */
    AMP_INSIDE_OP = 1u << 30, /* no layer: an implementation is running, and its inner calls see … */
    AMP_INNER_LAYERS = 8      /* … these bits from here on: none, but in an op that is made of others */
};

/* Tensors made while a frame is the innermost belong to it. */
typedef struct amp_scope_frame {
    amp_tensor *tensors; /* doubly linked through scope_next and scope_previous */
    struct amp_scope_frame *outer;
    bool is_users; /* opened by amp_scope_enter, on the heap; else a call's, on its stack */
} amp_scope_frame;

typedef struct amp_thread {
    unsigned layers;
    amp_status error; /* of the failure that stands */
    amp_scope_frame *scope;
    struct amp_counters *counters; /* core/counters.h; NULL until the first use */
    struct amp_call_note *note;    /* of the call whose implementation runs (call/call.h); NULL: none does */
    bool watches_end;              /* amp_thread_watch was called */
    bool is_trying;                /* what fails now is done in another way: the program's hook is not told */
    /* Products choose and test their kernel and pack their weights, and give zeros (graph/execute.c). */
    bool is_preparing;
} amp_thread;

/* What amp_label_enter has opened. */
typedef struct amp_label_stack {
    char path[AMP_LABEL_BYTES];
    unsigned char ends[AMP_LABEL_DEPTH]; /* the length of the path before each */
    int depth;                           /* those beyond AMP_LABEL_DEPTH are only counted */
} amp_label_stack;

/* Room for the thread's sentences. Not in thread-local memory itself: initial-exec makes all of a library's static, and
 * of that, dlopen (Python's ctypes, plugins) has about a kilobyte left for everyone. */
typedef struct amp_thread_text {
    char message[1024]; /* of the failure that stands */
    char descriptions[8][200];
    char names[2][80];
    char reason[256];
    amp_label_stack labels;
    unsigned next_description, next_name;
} amp_thread_text;

/* Never NULL. */
amp_thread_text *amp_this_thread_text(void);

/* For what every call reads: one instruction to reach, also from the shared library. */
#define AMP_INITIAL_EXEC __attribute__((tls_model("initial-exec")))

extern __thread amp_thread amp_this_thread AMP_INITIAL_EXEC;

/* Whoever keeps something for this thread asks that its end be seen (thread_end.c), which then calls these. */
void amp_thread_watch(void);
static inline void amp_thread_watch_end(void) {
    if (__builtin_expect(!amp_this_thread.watches_end, 0)) amp_thread_watch();
}
void amp_scopes_end_thread(void);
void amp_headers_end_thread(void);
void amp_memory_end_thread(void);
void amp_counters_end_thread(void);
void amp_text_end_thread(void);

/* Frees the headers that are kept for reuse, of this thread and of those that ended. */
void amp_tensor_trim(void);

/* Frames on the stack, for the library's own temporaries: what is still in the frame at the end is released. */
void amp_scope_push(amp_scope_frame *frame);
void amp_scope_pop(amp_scope_frame *frame);
/* Ends the scopes that were opened inside `frame` and not closed; how many. */
int amp_scope_unwind(const amp_scope_frame *frame);
/* Whether the frame is one of this thread's open ones; it is compared, not looked into. */
bool amp_scope_is_here(const amp_scope_frame *frame);
/* Moves a tensor from whatever frame it is in to `frame` (NULL: the caller's hands). */
void amp_scope_move(amp_tensor *tensor, amp_scope_frame *frame);
/* The same for a tensor that is in none. */
static inline void amp_scope_adopt(amp_tensor *tensor, amp_scope_frame *frame) {
    if (!frame) return;
    tensor->scope = frame;
    tensor->scope_next = frame->tensors;
    if (frame->tensors) frame->tensors->scope_previous = tensor;
    frame->tensors = tensor;
}

#endif /* AMP_CORE_THREAD_H */
