/* libamp for C++17 and later: every op as a function of namespace amp, tensors that release themselves, guards for
 * scopes, regions and labels.
 *
 *     amp::autocast region(AMP_DEVICE_CPU);
 *     amp::tensor y = amp::softmax(amp::gelu(amp::linear(x, w, b)), -1);
 *     auto [values, indices] = amp::topk(y, 5);
 *     amp::tensor sums = amp::sum(y, {.dim = {1}, .keepdim = true});                              // C++20
 *     amp::tensor same = amp::sum(y, amp::sum_options().with_dim({1}).with_keepdim(true));         // C++17
 *
 * Names, arguments and defaults are those of amp/ops.h: what is required comes first, then optional tensors that follow
 * it (a bias), then the rest as options by name. Several results come as a std::tuple, a list as a std::vector; an
 * `indices` of pooling is empty unless .return_indices is true. The forms add_ and add_out give their target once more.
 * All is inline over the C API: nothing to link but libamp, and both may be mixed (tensor::get, tensor(returned)).
 *
 * Errors: as in C one stands on the thread, ops give empty tensors until amp_clear_error(), and one look at
 * amp_last_status() at the end of a block is enough. With AMP_EXCEPTIONS defined before this header is included, what
 * fails throws amp::error instead, and no error stands afterwards; guards that are open close as for any exception.
 * std::bad_alloc may come from the std::vector of a list in both. */
#ifndef AMP_AMP_HPP
#define AMP_AMP_HPP

#if !defined(__cplusplus) || __cplusplus < 201703L
#error "amp/amp.hpp is for C++17 and later; C has amp/amp.h"
#endif

#include "amp/ops.hpp"
#include "amp/tensor.hpp"

#endif /* AMP_AMP_HPP */
