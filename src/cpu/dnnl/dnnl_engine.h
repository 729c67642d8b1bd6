/* What all users of oneDNN share: its engine, names of its implementations, and reorders. */
#ifndef AMP_CPU_DNNL_ENGINE_H
#define AMP_CPU_DNNL_ENGINE_H

#include <oneapi/dnnl/dnnl.h>

/* NULL: oneDNN has none. */
dnnl_engine_t amp_dnnl_engine(void);

/* "dnnl:" and oneDNN's own name of the implementation, kept for ever: there are few. Under AMP_LOCK_DNNL. */
const char *amp_dnnl_name(const_dnnl_primitive_desc_t descriptor);

/* On the threads that OpenMP gives; takes AMP_LOCK_DNNL_MAKING. */
dnnl_status_t amp_dnnl_reorder(const_dnnl_memory_desc_t from, void *source, const_dnnl_memory_desc_t to, void *target);

#endif /* AMP_CPU_DNNL_ENGINE_H */
