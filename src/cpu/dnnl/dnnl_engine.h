/* What all users of oneDNN share: its engine, names of its implementations, and reorders. */
#ifndef AMP_CPU_DNNL_ENGINE_H
#define AMP_CPU_DNNL_ENGINE_H

#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* NULL: oneDNN has none. */
dnnl_engine_t amp_dnnl_engine(void);

/* "dnnl:" and oneDNN's own name of the implementation, kept for ever: there are few. Under AMP_LOCK_DNNL. */
const char *amp_dnnl_name(const_dnnl_primitive_desc_t descriptor);

/* While it makes a primitive oneDNN does not expect an allocation to fail: it throws through C, or writes through NULL.
 * So there must be room for all that it may take (a primitive and its compiled code, about a megabyte) before it
 * begins. */
bool amp_dnnl_has_room(void);

/* On the threads that OpenMP gives; takes AMP_LOCK_DNNL_MAKING. */
dnnl_status_t amp_dnnl_reorder(const_dnnl_memory_desc_t from, void *source, const_dnnl_memory_desc_t to, void *target);

/* Who computes what oneDNN and our kernels both can: by the rules of conv_choice.c and matmul.c, unless a test says
 * otherwise, for all threads. */
typedef enum amp_dnnl_use { AMP_DNNL_BY_RULE, AMP_DNNL_NEVER, AMP_DNNL_ALWAYS } amp_dnnl_use;
amp_dnnl_use amp_dnnl_use_now(void);
void amp_dnnl_use_for_test(amp_dnnl_use use);

#ifdef __cplusplus
}
#endif

#endif /* AMP_CPU_DNNL_ENGINE_H */
