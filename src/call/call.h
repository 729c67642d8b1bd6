/* One call on its way from amp_<op>() through the layers to a kernel. */
#ifndef AMP_DISPATCH_CALL_H
#define AMP_DISPATCH_CALL_H

#include "amp/user.h"
#include "core/generator.h"
#include "core/tensor_impl.h"
#include "core/thread.h"
#include "policy/op_table.h"

enum { AMP_NOTE_PARTS = 4 };

/* What the layers and the kernel noted, for the explain report. */
typedef struct amp_call_note {
    amp_policy policy;
    bool in_region;     /* an enabled region of the call's device looked at it */
    amp_dtype region;   /* … of this dtype; AMP_DTYPE_NONE: there is none */
    bool overridden;    /* the policy came from an override */
    amp_dtype target;   /* dtype that autocast chose; AMP_DTYPE_NONE: it left the arguments alone */
    const char *bypass; /* why autocast did not look at it: static text, or NULL */
    bool weight_of_op;  /* a weight was cast for this call only, because an op made it */
    int casts_made;     /* arguments converted for this call */
    int casts_cached;   /* … taken from the cast cache instead */
    int casts_fused;    /* … read in their own type by a kernel that converts on the way */
    const char *kernel; /* the kernel row that ran, static text: "gemm_bf16_amx", "dnnl:brg_matmul:avx512_core" */
    const char *parts[AMP_NOTE_PARTS]; /* … by the ops that it called, the first few in their order; NULL behind */
    bool is_random;                    /* it took random numbers … */
    amp_random_place random; /* … from here: what a gradient makes the same mask from (ops/random_results.h) */
} amp_call_note;

struct amp_call {
    const amp_op_info *op;
    unsigned form; /* one AMP_FORM_* */
    amp_device device;
    const void *args;   /* the op's argument struct: a copy that belongs to the call, defaults filled in; autocast may
                           replace tensors in it, below that nobody writes it */
    amp_tensor *target; /* the tensor that an in-place or out= call of an op with one result writes; else NULL */
    amp_tensor *const
        *outs;             /* those that an out= call of an op with several results writes, in the results' order; else
                                NULL. The implementation makes fresh results, which are copied over once all fit. */
    bool has_unaligned;    /* an argument may lie unaligned in a file */
    bool may_cache;        /* packed forms of arguments may be kept for later calls */
    unsigned layers;       /* AMP_LAYER_* still to run */
    unsigned inner_layers; /* those of the implementation's own calls: 0, but of an op that autocast leaves to its
                              parts; its arguments' dtypes may differ then */
    amp_tensor *outputs[AMP_MAX_OUTPUTS]; /* filled by the implementation, through amp_call_output or with any tensor */
    amp_tensor_list list;                 /* result of an op that returns a list: amp_call_list */
    amp_tensor *casts; /* room for AMP_CALL_CASTS pending casts, which need no header of their own then; NULL: none */
    int cast_count;
    unsigned
        ahead; /* the layer that asks what the results are, and not for their elements: it sees the implementation's own
                       calls too (call/ahead.h); 0: the call computes */
    bool is_part;                  /* … and one of those */
    bool has_ended;                /* … which it knows by now */
    struct amp_scope_frame *frame; /* the call's own: results are in it until they move to the caller's */
    /* By result: tensors with memory of just its size, which amp_call_output gives instead of fresh ones, each once;
     * NULL: none. */
    amp_tensor *const *places;
    unsigned fresh;  /* a bit for each result that amp_call_output made, or gave a place */
    unsigned needed; /* a bit for each result that a layer reads, though the caller may not want it */
    /* A backward will go over the call, and no other that waits for it reads the trainable weights among its arguments:
     * they are written before they are read so again, most often. */
    bool packs_once;
    bool has_pending; /* arguments came in as pending casts: from a gradient function, for what was saved so */
    amp_call_note note;
};

enum { AMP_CALL_CASTS = 4 };

/* An op's implementation on a device: reads call->args, sets call->outputs. Tensors that it makes on the way belong to
 * a frame of the call and go at its end. Ops that it calls run without any layer: autocast is off inside, but of an op
 * that it leaves to its parts. */
typedef amp_status (*amp_op_function)(amp_call *call);

/* Entry of every generated amp_<op>_call(). `args` is the caller's struct (its first field is its size); `target` is
 * the out= tensor of an AMP_FORM_OUT call. Returns the first output, NULL with an error. */
amp_tensor *amp_dispatch(const amp_op_info *op, unsigned form, const void *args, amp_tensor *target);
/* The out= form of an op with several results: `outs` has a tensor for each. */
amp_tensor *amp_dispatch_outs(const amp_op_info *op, const void *args, amp_tensor *const *outs);
/* The same for ops that return a list. */
amp_tensor_list amp_dispatch_list(const amp_op_info *op, const void *args);
/* amp_dispatch from inside a layer: only the layers of `layers` run. */
amp_tensor *amp_dispatch_below(unsigned layers, const amp_op_info *op, const void *args);

/* Runs the next layer of call->layers, outermost first, or the device's implementation when none is left. Every layer
 * ends in it. */
amp_status amp_call_next(amp_call *call);

/* amp_call_output and amp_call_list, by which an implementation gives its results, are in amp/user.h. The tensor of
 * amp_call_output is the target of an in-place or out= call itself where it can be written directly (else a temporary
 * that the dispatcher copies over afterwards): the implementation writes through its strides. */

/* amp_call_output whose fresh tensors are channels-last where `like` is (core/layout.h); `like` may be NULL. */
amp_tensor *amp_call_output_like(amp_call *call, int index, amp_dtype dtype, int rank, const int64_t *shape,
                                 const amp_tensor *like);

/* amp_call_output of the first result for an implementation that writes densely: a strided target is written
 * afterwards. */
amp_tensor *amp_call_dense_output(amp_call *call, amp_dtype dtype, int rank, const int64_t *shape);

/* Gives a pending cast its memory, from the cast cache or by converting; any other tensor is left alone. Called for
 * every argument before an implementation runs, unless its table row says that it takes pending casts. */
amp_status amp_call_materialize(amp_call *call, amp_tensor *tensor);

/* A pending cast for an argument of this call; NULL with an error. */
amp_tensor *amp_call_pending_cast(amp_call *call, amp_tensor *source, amp_dtype dtype);

/* The call writes arguments that its schema says it may: running statistics are written in training only. */
bool amp_call_mutates(const amp_call *call);

/* The caller asks for result `index`. */
bool amp_call_wants(const amp_call *call, int index);

/* op name for messages: "add", "add_" or "add_out". */
const char *amp_call_name(const amp_call *call);

/* The op's ordinary type error: two arguments whose dtypes must agree do not. Says that in-place and out= forms do not
 * autocast where that is why. */
amp_status amp_call_check_same_dtype(const amp_call *call, const char *name_a, const amp_tensor *a, const char *name_b,
                                     const amp_tensor *b);

/* The same for the target of an in-place or out= call, where the op does not convert its result (matrix products). */
amp_status amp_call_check_target_dtype(const amp_call *call, amp_dtype dtype);

/* The argument has just this shape. */
amp_status amp_call_check_shape(const amp_call *call, const char *name, const amp_tensor *t, int rank,
                                const int64_t *shape);

/* 'grad_output' has just this shape, and a floating dtype. */
amp_status amp_call_check_gradient(const amp_call *call, const amp_tensor *t, int rank, const int64_t *shape);

/* The field of an argument in the call's struct. */
static inline const void *amp_call_field(const amp_call *call, const amp_arg_info *arg) {
    return (const char *)call->args + arg->offset;
}
static inline amp_tensor *const *amp_call_tensor(const amp_call *call, const amp_arg_info *arg) {
    return (amp_tensor *const *)amp_call_field(call, arg);
}
static inline const amp_tensor_list *amp_call_tensor_list(const amp_call *call, const amp_arg_info *arg) {
    return (const amp_tensor_list *)amp_call_field(call, arg);
}

#endif /* AMP_DISPATCH_CALL_H */
