/* Graphs: networks from ONNX files, run as they stand, in f32 or under autocast.
 *
 *     amp_graph *net = amp_graph_load("model.onnx", NULL);
 *     amp_tensor *y = NULL;
 *     amp_autocast(AMP_DEVICE_CPU) { amp_graph_run(net, &x, 1, &y, 1); }
 *     …
 *     amp_graph_release(net); */
#ifndef AMP_GRAPH_H
#define AMP_GRAPH_H

#include "amp/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A network. Immutable but for what it keeps for later runs: any number of threads may run one. */
typedef struct amp_graph amp_graph;

typedef struct amp_graph_options {
    size_t struct_size AMP_SIZE_OF_(amp_graph_options);
    const char *data_folder; /* one more folder that weights in files of their own may lie in; NULL: only the model's */
    int64_t most_rounds;     /* of one Loop or Scan of the model; 0: a million */
    bool exact;              /* the same bits as calling the ops one by one: nothing is fused or laid out anew */
    unsigned char reserved[31]; /* 0 */
} amp_graph_options;

/* Reads a model in ONNX's format: opset 7 to 24, weights in the file or beside it. The file is mapped, and must not be
 * cut short while the graph lives. options: NULL: the defaults. The graph is the caller's. NULL with an error: a file
 * that is missing or no model; an opset, op or attribute that libamp lacks (the sentence names the node). Never crashes
 * on a hostile file. */
AMP_API amp_graph *amp_graph_load(const char *path, const amp_graph_options *options);

/* What computes a graph's outputs from its inputs, by calling ops; results are owned as those of ops are. Returns
 * amp_last_status(). */
typedef amp_status (*amp_graph_function)(void *context, amp_tensor *const *inputs, amp_tensor **outputs);

/* A graph of a function of the program: torch.jit.trace, but that nothing is said of sizes. The function is called in
 * the first run with inputs of a shape and dtype, and whenever a weight has changed since; what ops it calls is written
 * down, improved, and run from there on. So it may compute with sizes as it likes; but what it takes from elsewhere
 * than its inputs, other than tensors, it takes once. Elements of inputs that it looks at (amp_item, amp_data) are part
 * of the question: up to 8 KiB of them; beyond that, and where it writes tensors in place, draws random numbers, opens
 * regions of its own, or calls ops whose results have sizes that depend on elements, it is called in each run, as
 * AMP_VERBOSE=graph tells. The function makes all its calls on the thread that it is called on; what they give may have
 * no elements yet until it has returned, which whoever looks at them there does not notice: they are computed then.
 * Other threads cannot use it before. `name` is for messages, and is copied. Of the options, which may be NULL, `exact`
 * holds. The context must live as long as the graph; several threads may be in the function at a time if several run
 * the graph. NULL with an error. */
AMP_API amp_graph *amp_graph_trace(const char *name, amp_graph_function function, void *context, int input_count,
                                   int output_count, const amp_graph_options *options);

/* Gives it back, with its weights; NULL is allowed. No other thread may be running it. */
AMP_API void amp_graph_release(amp_graph *graph);

enum { AMP_GRAPH_OPEN = -1 }; /* an extent, or a rank, that the model leaves open */

/* What an input or output is called and looks like. Texts live as long as the graph. */
typedef struct amp_graph_value {
    const char *name;
    amp_dtype dtype;                        /* AMP_DTYPE_NONE: open */
    int rank;                               /* AMP_GRAPH_OPEN: open */
    int64_t shape[AMP_MAX_RANK];            /* AMP_GRAPH_OPEN: open */
    const char *extent_names[AMP_MAX_RANK]; /* "batch" of an open extent; NULL: none */
} amp_graph_value;

/* How many there are; 0 for NULL. */
AMP_API int amp_graph_input_count(const amp_graph *graph);
AMP_API int amp_graph_output_count(const amp_graph *graph);
/* Fills *value, of which `bytes` are there (sizeof *value), with input or output `index`, in the model's order.
 * AMP_ERROR_INVALID: there is no such one. */
AMP_API amp_status amp_graph_get_input(const amp_graph *graph, int index, amp_graph_value *value, size_t bytes);
AMP_API amp_status amp_graph_get_output(const amp_graph *graph, int index, amp_graph_value *value, size_t bytes);

/* What the model's maker wrote under `key`: an alphabet, an author (metadata_props). It ends at its first zero byte,
 * and lives as long as the graph; of a key that is there twice, the first. NULL: there is no such key, or the graph is
 * not from a file. */
AMP_API const char *amp_graph_metadata(const amp_graph *graph, const char *key);

/* Computes the outputs. inputs: as many tensors as the graph has inputs, in their order, on one device; extents of one
 * name are equal. outputs: room for output_count results, the first of the graph's; each is owned as the result of an
 * op is: by the innermost open scope, else by the caller. In a region of autocast every op is cast as the region says;
 * results are row-major, and have the floating dtype that the model declares. No gradients lead through a graph: its
 * results require none. Errors name the input (what the model wants, what came) or the node; then all outputs are
 * NULL. */
AMP_API amp_status amp_graph_run(amp_graph *graph, amp_tensor *const *inputs, int input_count, amp_tensor **outputs,
                                 int output_count);

/* All that the first amp_graph_run does beside computing, for inputs of these shapes in the calling thread's region of
 * autocast, or outside of any: afterwards that run takes as long as later ones, and gives the same bits. The graph is
 * captured and planned, weights are packed, kernels are tested, memory is taken from the system. inputs: as for
 * amp_graph_run; their elements matter only where the graph looks at them (an If's condition, a shape), or hands them
 * to ops that may refuse them. Matrix products and convolutions of the CPU are not computed. What cannot be prepared so
 * is run once: on CUDA, and where AMP_VERBOSE=graph says that the graph runs op by op; such a run changes what a run
 * changes: running statistics, generators of random numbers. Later shapes and regions are prepared apart. Errors: as of
 * amp_graph_run; nothing is lost then. */
AMP_API amp_status amp_graph_prepare(amp_graph *graph, amp_tensor *const *inputs, int input_count);

/* amp_graph_run into memory of the caller's, as an op's `_out` form: outputs: output_count tensors, the first of the
 * graph's, each of its output's shape, on the inputs' device, and of the dtype that amp_graph_run would give it; NULL:
 * that one is not wanted. None may share elements with an input or with another one. The same bits; later runs write a
 * tensor that is row-major, from the first element of its storage on, without a copy where they can, and take no new
 * memory. A tensor that does not fit is named, with its shape and what is wanted. After an error what is in them is not
 * defined. */
AMP_API amp_status amp_graph_run_out(amp_graph *graph, amp_tensor *const *inputs, int input_count,
                                     amp_tensor *const *outputs, int output_count);

/* ---- Watching -----------------------------------------------------------------------------------------------------
 * A run that shows each of its steps: for pages that draw a graph, and for finding where an error comes from. Structs
 * are libamp's, and good until the callback returns; fields may be added at their ends. */

/* What a step reads or makes. */
typedef struct amp_graph_operand {
    const char *argument; /* the op's: "weight"; of results "out", "indices" … */
    int value;            /* its number: who makes it has it among its results; -1: absent */
    int input;            /* of the graph, which it is; -1: none */
    int output;           /* of the graph, the first that it is; -1: none */
    bool is_constant;
    amp_tensor *tensor; /* borrowed; NULL: absent */
    amp_tensor *f32;    /* beside_f32: the same value in the run in f32; else NULL */
    amp_tensor
        *local; /* beside_f32, of results: what the step makes, as the region says, of the operands of the run in f32 */
    void *reserved[2]; /* NULL */
} amp_graph_operand;

typedef struct amp_graph_step {
    size_t struct_size;        /* bytes that this libamp knows */
    int number, count;         /* 0 … count - 1 */
    const char *op, *overload; /* "linear_pointwise", "binary": what passes have made of the calls */
    /* Where the calls come from that the step is made of: names of the model's nodes (where one has none, that of its
     * first output), or labels (amp/explain.h) that the function made them under. */
    const char *const *places;
    int place_count;
    int operand_count, result_count;
    const amp_graph_operand *operands, *results;
    double seconds; /* of this one run */
} amp_graph_step;

typedef struct amp_graph_watcher {
    size_t struct_size AMP_SIZE_OF_(amp_graph_watcher);
    /* After each step. Another status than AMP_OK ends the run, with its error. It may call ops, on this thread; they
     * are in no region, and what they make goes when it returns, unless it is retained. May be NULL. */
    amp_status (*step)(void *context, const amp_graph_step *step);
    /* Before the first step, for each pass in their order: at how many places it changed the graph, and the calls
     * before and after it. May be NULL. */
    void (*pass)(void *context, const char *name, int places, int calls_before, int calls_after);
    void *context;
    /* Runs each step a second time without the region, from f32 to f32, and a third time as the region says from the
     * operands of the second: amp_graph_operand.f32 and .local. The outputs are still those of the region. */
    bool beside_f32;
    unsigned char reserved[31]; /* 0 */
} amp_graph_watcher;

/* amp_graph_run, watched: the same steps and results, one step after the other. AMP_ERROR_NOT_IMPLEMENTED: the graph
 * has no steps, because it is run op by op; the sentence says why (amp_graph_trace). */
AMP_API amp_status amp_graph_watch(amp_graph *graph, amp_tensor *const *inputs, int input_count, amp_tensor **outputs,
                                   int output_count, const amp_graph_watcher *watcher);

/* ---- Saving ---- */

/* How a file says where numbers are rounded to bf16. */
typedef enum amp_graph_form {
    AMP_GRAPH_TYPED = 0, /* tensors are bf16 where libamp's are: what libamp itself loads best */
    AMP_GRAPH_PORTABLE   /* ops compute in f32, and two Casts stand wherever libamp rounds: opens everywhere */
} amp_graph_form;

typedef struct amp_graph_save_options {
    size_t struct_size AMP_SIZE_OF_(amp_graph_save_options);
    uint64_t *
        fixed_inputs; /* NULL, or what gets a bit for each input whose elements decided what is computed: bit i, of inputs
                               from 63 on bit 63 */
    amp_graph_form form;
    bool external_data; /* weights in a file of their own, PATH.data; without it only those of more than 2 GiB */
    /* NULL: all extents are those of the inputs. Else the extents that stay free, each an input by name or number, a
     * dimension and a name, "ids:0=batch,ids:1=length,mask:0=batch,mask:1=length"; those of one name are equal. "*":
     * those that a loaded model has names for, as far as they can be free. */
    const char *dynamic;
    unsigned char reserved[16]; /* 0 */
} amp_graph_save_options;

/* Writes the graph as a model in ONNX's format, as it runs on inputs like these in the calling thread's region of
 * autocast, or outside of any: casts are nodes of the file, which is to be run outside of regions. Loaded again, with
 * `exact`, it gives the same bits as this graph with `exact`, in either form. Extents are fixed: those of these inputs;
 * so are the elements of inputs that decide what is computed (the sampling rate that an If looks at). The graph runs
 * once. What was in `path` stays until the file is whole. options: NULL: the defaults. AMP_ERROR_NOT_IMPLEMENTED names
 * the op that ONNX has nothing for, or why the graph cannot be written down. */
AMP_API amp_status amp_graph_save(amp_graph *graph, const char *path, amp_tensor *const *inputs, int input_count,
                                  const amp_graph_save_options *options);

/* ---- Packed weights ---- */

/* Writes what the graph's runs so far have packed of the model's weights, in the forms that kernels of this machine
 * read: for amp_graph_load_packs in a later process. So prepare it first (or run it) for what it will be run for: those
 * shapes, that region. What was in `path` stays until the file is whole. AMP_ERROR_INVALID: none of them is packed.
 * AMP_ERROR_NOT_IMPLEMENTED: the graph is no file's. */
AMP_API amp_status amp_graph_save_packs(amp_graph *graph, const char *path);

/* Maps such a file, right after amp_graph_load: what it has is not packed again. Results have the same bits with it and
 * without. The file must not be cut short while the graph lives. AMP_ERROR_IO, with the reason, and the graph is as it
 * was: a file that is missing, not whole or damaged (all its bytes are read), or was written for another model, by
 * another version of libamp, or for another instruction set than ops run with here. Never crashes on a hostile file. */
AMP_API amp_status amp_graph_load_packs(amp_graph *graph, const char *path);

#ifdef __cplusplus
}
#endif

#endif /* AMP_GRAPH_H */
