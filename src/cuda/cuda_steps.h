/* The steps of CUDA devices (steps/steps.h). */
#ifndef AMP_CUDA_CUDA_STEPS_H
#define AMP_CUDA_CUDA_STEPS_H

#include "steps/steps.h"

amp_status amp_cuda_matmul(amp_call *call, amp_matmul *p);
amp_status amp_cuda_dots(const char *op, amp_tensor *out, const amp_tensor *x, const amp_tensor *y, bool conjugate);
amp_status amp_cuda_convolve(amp_call *call, const amp_conv *c, bool loops);
amp_status amp_cuda_rnn_pass(amp_call *call, const amp_rnn_pass *layer);
amp_status amp_cuda_write_range(amp_tensor *out, const amp_scalar *start, const amp_scalar *step);
amp_status amp_cuda_polar(const amp_call *call, const amp_polar_args *args, amp_tensor *out);
amp_status amp_cuda_fake_quantize(amp_call *call, amp_tensor *input, amp_tensor *scale, amp_tensor *zero_point,
                                  int64_t low, int64_t high);
amp_status amp_cuda_difference_of_products(const amp_call *call, const amp_tensor *const v[4], amp_dtype compute,
                                           amp_tensor *out);
amp_status amp_cuda_scale_slices(amp_call *call, amp_tensor *input, amp_tensor *norms, double limit);
amp_status amp_cuda_respond(amp_call *call, const amp_local_response_norm_args *args, int64_t inner);
amp_status amp_cuda_random_elements(amp_call *call, struct amp_random_task *task, const amp_tensor *out,
                                    const amp_tensor *in);
amp_status amp_cuda_reduce_tensor(const amp_reduce_work *work, amp_tensor *out);
amp_status amp_cuda_variance_of(amp_call *call, const amp_variance *v);
amp_status amp_cuda_distances_between(amp_call *call, const amp_tensor *one, const amp_tensor *many, double p,
                                      amp_dtype dtype);
amp_status amp_cuda_distances_within(amp_call *call, const amp_tensor *points, double p);
amp_status amp_cuda_moduli(const amp_call *call, const amp_operand pair[2], amp_dtype compute, double eps,
                           amp_tensor *moduli);
amp_status amp_cuda_products(const amp_call *call, const amp_operand pair[2], amp_dtype compute, amp_tensor *products);
amp_status amp_cuda_cosines(const amp_call *call, const amp_operand sums[3], double eps, amp_tensor *out);
amp_status amp_cuda_spatial_gather(amp_call *call, const amp_spatial *s, amp_tensor *input,
                                   const int64_t *const tables[AMP_SPATIAL_DIMS]);
amp_status amp_cuda_resample(amp_call *call, const amp_spatial *s, amp_tensor *input,
                             const amp_taps taps[AMP_SPATIAL_DIMS]);
amp_status amp_cuda_pool_average(amp_call *call, const amp_pool *p, amp_tensor *input, bool count_padding,
                                 const int64_t *divisor);
amp_status amp_cuda_pool_maximum(amp_call *call, const amp_pool *p, amp_tensor *input, bool with_places);
amp_status amp_cuda_unscale(amp_call *call, const amp_tensor_list *grads, amp_tensor *found, const amp_tensor *factor);
amp_status amp_cuda_update_all(amp_call *call, const amp_update *u);
amp_status amp_cuda_pool_fractional(amp_call *call, const amp_spatial *s, amp_tensor *input, amp_tensor *samples,
                                    const int64_t kernel[AMP_SPATIAL_DIMS], bool with_places);
amp_status amp_cuda_unpool(amp_call *call, const amp_spatial *s, amp_tensor *input, amp_tensor *indices);
amp_status amp_cuda_sample_grid(amp_call *call, const amp_spatial *s, const amp_sampling *sampling);
amp_status amp_cuda_write_by_index(const amp_call *call, const amp_writing *w);
amp_status amp_cuda_read_along(amp_call *call, const amp_reading *r);
amp_status amp_cuda_make_offsets(const amp_call *call, const amp_tensor *table, amp_tensor *const *indices, int dims,
                                 amp_tensor *out);
amp_status amp_cuda_index_put_mask(amp_call *call, const amp_index_put_args *a, amp_tensor *mask, int first);
amp_status amp_cuda_set_hot(const amp_call *call, const amp_tensor *index, amp_tensor *out);
amp_status amp_cuda_embedding_bag(amp_call *call, const amp_embedding_bag_args *args, amp_bag_mode mode,
                                  int64_t padding);
amp_status amp_cuda_first_of_rows(const amp_call *call, const amp_rows *in, int64_t k, bool descending, bool last_first,
                                  const amp_rows *values, const amp_rows *places);
amp_status amp_cuda_quantiles_of(const amp_call *call, const amp_rows *in, const amp_quantiles *asked,
                                 const amp_rows *out);
amp_status amp_cuda_search_rows(const amp_call *call, const amp_searching *s, const amp_rows *values,
                                const amp_rows *out);
amp_status amp_cuda_fft_lines(const amp_fft_lines *lines);
amp_status amp_cuda_linalg_run(amp_call *call, const amp_linalg_loop *loop);
amp_status amp_cuda_conjugate(amp_tensor *t);
amp_pair_losses amp_cuda_cosine_losses, amp_cuda_triplet_losses;

#endif /* AMP_CUDA_CUDA_STEPS_H */
