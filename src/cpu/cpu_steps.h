/* The CPU's steps (steps/steps.h), by the folder that has them. */
#ifndef AMP_CPU_CPU_STEPS_H
#define AMP_CPU_CPU_STEPS_H

#include "steps/steps.h"

amp_status amp_cpu_dots(const char *op, amp_tensor *out, const amp_tensor *x, const amp_tensor *y, bool conjugate);
amp_status amp_cpu_convolve(amp_call *call, const amp_conv *c, bool loops);
bool amp_cpu_has_convolve_back(const amp_conv_back *c, amp_dtype dtype);
amp_status amp_cpu_convolve_back(amp_call *call, const amp_conv_back *c, bool *served);
amp_status amp_cpu_rnn_pass(amp_call *call, const amp_rnn_pass *layer);
amp_status amp_cpu_rnn_back(amp_call *call, const amp_rnn_back *layer);
amp_status amp_cpu_slope(amp_call *call, const amp_slope *slope);
amp_status amp_cpu_softmax_slope(amp_call *call, amp_tensor *d, amp_tensor *y, bool logarithm);
amp_status amp_cpu_attention_slope(amp_call *call, const amp_attention_slope *slope);
amp_status amp_cpu_norm_slope(amp_call *call, const amp_norm_slope *slope);
amp_status amp_cpu_channel_norm_slope(amp_call *call, const amp_channel_norm_slope *slope);
amp_status amp_cpu_batch_norm(amp_call *call, const amp_batch_norm_args *args, amp_dtype dtype, float least);
amp_status amp_cpu_polar(const amp_call *call, const amp_polar_args *args, amp_tensor *out);
amp_status amp_cpu_fake_quantize(amp_call *call, amp_tensor *input, amp_tensor *scale, amp_tensor *zero_point,
                                 int64_t low, int64_t high);
amp_status amp_cpu_difference_of_products(const amp_call *call, const amp_tensor *const v[4], amp_dtype compute,
                                          amp_tensor *out);
amp_status amp_cpu_scale_slices(amp_call *call, amp_tensor *input, amp_tensor *norms, double limit);
amp_status amp_cpu_respond(amp_call *call, const amp_local_response_norm_args *args, int64_t inner);
amp_status amp_cpu_random_elements(amp_call *call, struct amp_random_task *task, const amp_tensor *out,
                                   const amp_tensor *in);
amp_status amp_cpu_reduce(const amp_reduce_work *work, amp_tensor *out);
amp_status amp_cpu_variance(amp_call *call, const amp_variance *v);
amp_status amp_cpu_distances_between(amp_call *call, const amp_tensor *one, const amp_tensor *many, double p,
                                     amp_dtype dtype);
amp_status amp_cpu_distances_within(amp_call *call, const amp_tensor *points, double p);
amp_status amp_cpu_moduli(const amp_call *call, const amp_operand pair[2], amp_dtype compute, double eps,
                          amp_tensor *moduli);
amp_status amp_cpu_products(const amp_call *call, const amp_operand pair[2], amp_dtype compute, amp_tensor *products);
amp_status amp_cpu_cosines(const amp_call *call, const amp_operand sums[3], double eps, amp_tensor *out);
amp_status amp_cpu_spatial_gather(amp_call *call, const amp_spatial *s, amp_tensor *input,
                                  const int64_t *const tables[AMP_SPATIAL_DIMS]);
amp_status amp_cpu_resample(amp_call *call, const amp_spatial *s, amp_tensor *input,
                            const amp_taps taps[AMP_SPATIAL_DIMS]);
amp_status amp_cpu_pool_average(amp_call *call, const amp_pool *p, amp_tensor *input, bool count_padding,
                                const int64_t *divisor);
amp_status amp_cpu_pool_maximum(amp_call *call, const amp_pool *p, amp_tensor *input, bool with_places);
amp_status amp_cpu_unscale(amp_call *call, const amp_tensor_list *grads, amp_tensor *found, const amp_tensor *factor);
amp_status amp_cpu_clip(amp_call *call, const amp_tensor_list *grads, double factor, double limit);
amp_status amp_cpu_norms(amp_call *call, const amp_tensor_list *grads, amp_tensor *out);
amp_status amp_cpu_update(amp_call *call, const amp_update *u);
amp_status amp_cpu_pool_fractional(amp_call *call, const amp_spatial *s, amp_tensor *input, amp_tensor *samples,
                                   const int64_t kernel[AMP_SPATIAL_DIMS], bool with_places);
amp_status amp_cpu_unpool(amp_call *call, const amp_spatial *s, amp_tensor *input, amp_tensor *indices);
amp_status amp_cpu_sample_grid(amp_call *call, const amp_spatial *s, const amp_sampling *sampling);
amp_status amp_cpu_write_by_index(const amp_call *call, const amp_writing *w);
amp_status amp_cpu_read_along(amp_call *call, const amp_reading *r);
amp_status amp_cpu_make_offsets(const amp_call *call, const amp_tensor *table, amp_tensor *const *indices, int dims,
                                amp_tensor *out);
int64_t amp_cpu_largest_index(const amp_tensor *index);
amp_status amp_cpu_set_hot(const amp_call *call, const amp_tensor *index, amp_tensor *out);
amp_status amp_cpu_embedding_bag(amp_call *call, const amp_embedding_bag_args *args, amp_bag_mode mode,
                                 int64_t padding);
amp_status amp_cpu_first_of_rows(const amp_call *call, const amp_rows *in, int64_t k, bool descending, bool last_first,
                                 const amp_rows *values, const amp_rows *places);
amp_status amp_cpu_quantiles(const amp_call *call, const amp_rows *in, const amp_quantiles *asked, const amp_rows *out);
amp_status amp_cpu_search(const amp_call *call, const amp_searching *s, const amp_rows *values, const amp_rows *out);
amp_status amp_cpu_fft_lines(const amp_fft_lines *lines);
amp_status amp_cpu_linalg_run(amp_call *call, const amp_linalg_loop *loop);
amp_status amp_cpu_conjugate(amp_tensor *t);
amp_pair_losses amp_cpu_cosine_losses, amp_cpu_triplet_losses;

#endif /* AMP_CPU_CPU_STEPS_H */
