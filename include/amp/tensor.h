/* Tensors: making them over memory, looking at them, and who owns them. Ops on them are in amp/ops.h. */
#ifndef AMP_TENSOR_H
#define AMP_TENSOR_H

#include "amp/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A CPU tensor over the caller's memory, without a copy. data: element [0, …, 0]; may be NULL only if the tensor has no
 * elements. rank: 0 … AMP_MAX_RANK. shape: rank extents. strides: in elements, NULL for dense row-major; may be 0 or
 * negative. (Where no step is taken, in dimensions of extent 1 and without elements, one that reaches beyond memory
 * becomes that of a dense tensor.) `data` is aligned to the size of an element (of one part, if complex); bools are 0
 * or 1. Who writes to the memory through a pointer of their own calls amp_tensor_mark_dirty afterwards: in a weight
 * position (weight and bias of linear and convolutions, mm's second matrix) in a region the tensor is cast and packed
 * once, and the packed form would be used on. Outside of regions nothing of lent memory is kept, unless it is marked as
 * a parameter. The memory must outlive every tensor that shares it: `deleter(context)`, if given, is called once when
 * the last of them is released (and not at all if this function fails). Returns NULL with an error; the caller keeps
 * the memory then. */
AMP_API amp_tensor *amp_from_memory(void *data, amp_dtype dtype, int rank, const int64_t *shape, const int64_t *strides,
                                    void (*deleter)(void *context), void *context);

/* A CPU tensor with its own copy of `data`: dense row-major, as many elements as the shape has. NULL with an error:
 * data is NULL where there are elements; no such dtype; a rank or an extent that is negative, a rank above
 * AMP_MAX_RANK; no memory. */
AMP_API amp_tensor *amp_from_data(const void *data, amp_dtype dtype, int rank, const int64_t *shape);

/* ---- Looking at a tensor. NULL gives 0, AMP_DTYPE_NONE or NULL; so does a released tensor, with an error. ---- */
AMP_API amp_dtype amp_tensor_dtype(const amp_tensor *tensor);
AMP_API amp_device amp_tensor_device(const amp_tensor *tensor);
AMP_API int amp_tensor_rank(const amp_tensor *tensor);
/* rank extents, and rank strides in elements; they live as long as the tensor. */
AMP_API const int64_t *amp_tensor_shape(const amp_tensor *tensor);
AMP_API const int64_t *amp_tensor_strides(const amp_tensor *tensor);
/* Extent of one dimension; dim -1 is the last. 0 with an error if there is no such dimension. */
AMP_API int64_t amp_tensor_size(const amp_tensor *tensor, int dim);
/* Number of elements: the product of the extents, 1 for rank 0. */
AMP_API int64_t amp_tensor_numel(const amp_tensor *tensor);
/* Dense row-major. */
AMP_API bool amp_tensor_is_contiguous(const amp_tensor *tensor);

/* Address of element [0, …, 0], for reading. NULL for a CUDA tensor, with an error. */
AMP_API const void *amp_data(const amp_tensor *tensor);
/* The same for writing: bumps the storage version, so that no cast of the old values is served again. Ask for it
 * anew before each round of writes, or call amp_tensor_mark_dirty after them. */
AMP_API void *amp_data_mut(amp_tensor *tensor);
/* Tells libamp that the memory was written through a pointer that it never saw. */
AMP_API amp_status amp_tensor_mark_dirty(amp_tensor *tensor);
/* Version of the storage: grows with every write. */
AMP_API uint64_t amp_tensor_version(const amp_tensor *tensor);
/* The one element of a CPU tensor, as a double (a bool as 0 or 1; of a complex number the real part; an i64 beyond 2^53
 * is rounded). 0 for NULL; 0 with an error for a tensor that has not exactly one element, is on another device, or was
 * released. */
AMP_API double amp_item(const amp_tensor *tensor);

/* Copies the values of a tensor, of any device and strides, into `buffer`, dense and row-major, as `dtype` (converted
 * as amp_to does). bytes: the room there, at least the number of elements times amp_dtype_size(dtype); what is beyond
 * stays as it is. The buffer is aligned as amp_from_memory wants it, and shares no memory with the tensor. On return
 * the values are there, also from CUDA (a copy that the explain report shows as to_device). Errors: an error stands;
 * NULL; no such dtype; a buffer that is NULL or too small; no memory. */
AMP_API amp_status amp_read(const amp_tensor *tensor, amp_dtype dtype, void *buffer, size_t bytes);

/* A tensor of the same shape and values whose channels, dimension 1, vary fastest in memory: NHWC of rank 4
 * (torch.channels_last), NDHWC of rank 5 (torch.channels_last_3d). Convolutions are fastest so, and keep it. A tensor
 * that is laid out so already comes back as a view. NULL with an error for any other rank. */
AMP_API amp_tensor *amp_channels_last(amp_tensor *tensor);

/* Marks a tensor as a parameter of the model: its casts are cached wherever it is used, and survive regions. A tensor
 * in a weight position that was loaded or made from data needs no mark; one that an op made (amp_full, amp_mul,
 * amp_clone) does, for it is taken for an activation: the explain report names such weights. */
AMP_API amp_status amp_tensor_mark_parameter(amp_tensor *tensor);
/* ---- Ownership -------------------------------------------------------------------------------------------------
 * One rule: a returned tensor belongs to the innermost open scope of the thread (amp/scope.h); with no scope open,
 * to the caller, who releases it. */

/* Moves a tensor out of its scope into the caller's hands, who releases it once. One that is in the caller's hands
 * already stays there, so that a function may keep what it returns whether or not a scope is open around it. A kept
 * view keeps its storage alive. Returns the tensor; NULL stays NULL, so that it can wrap a chain of calls. Inside an op
 * of the program its arguments are not the implementation's to keep or retain (which is an error where autocast has
 * cast one): keep a view or clone of one. */
AMP_API amp_tensor *amp_keep(amp_tensor *tensor);
/* One more owner of a tensor, beside the caller or the scope that it belongs to: one more amp_release. Returns the
 * tensor; NULL stays NULL. */
AMP_API amp_tensor *amp_retain(amp_tensor *tensor);
/* Releases the caller's tensor; NULL is allowed. A tensor that belongs to an open scope is released early. A second
 * release is an error (as long as the memory of the tensor was not used again). */
AMP_API void amp_release(amp_tensor *tensor);
/* Releases a list that an op returned outside of any scope, with its tensors. */
AMP_API void amp_list_release(amp_tensor_list list);

#ifdef __cplusplus
}
#endif

#endif /* AMP_TENSOR_H */
