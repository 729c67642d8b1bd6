/* What gradients of linear algebra have in common: batches of matrices, as (…, rows, columns). */
#ifndef AMP_GRADIENTS_MATRICES_H
#define AMP_GRADIENTS_MATRICES_H

#include "gradients/pieces.h"

/* The diagonal of each matrix, a view. */
amp_tensor *amp_diagonals(amp_tensor *matrices);
/* An identity of `extent` rows and `columns` columns for each matrix of `like`, in its dtype. */
amp_tensor *amp_identities(const amp_tensor *like, int64_t extent, int64_t columns);
/* The diagonal divided by two. */
amp_tensor *amp_half_diagonal(amp_tensor *matrices);
/* Columns times (…, columns), rows times (…, rows). */
amp_tensor *amp_scale_columns(amp_tensor *matrices, amp_tensor *factors);
amp_tensor *amp_scale_rows(amp_tensor *matrices, amp_tensor *factors);
/* The sum of what there is of both; NULL: nothing. */
amp_tensor *amp_sum_of(amp_tensor *a, amp_tensor *b);
/* X of M X = B, or X M = B where `left` is false, with triangular M. */
amp_tensor *amp_solved(amp_tensor *m, amp_tensor *b, bool upper, bool left, bool unit);
/* The triangle of each matrix that an op reads; without its diagonal where that is known to be ones. */
amp_tensor *amp_triangle_of(amp_tensor *matrices, bool upper, bool unit);
/* The gradient of A from that of its inverse X: -Xᴴ G Xᴴ. */
amp_tensor *amp_undo_inverse(amp_tensor *inverse, amp_tensor *gradient);
/* The gradient of A from that of its pseudo-inverse X. */
amp_tensor *amp_undo_pinv(amp_tensor *a, amp_tensor *x, amp_tensor *gradient);
/* The gradient of A from those of parts of A = U S Vᴴ; NULL where there is none. vh is Vᴴ, gv that of V. */
amp_tensor *amp_undo_svd(amp_tensor *u, amp_tensor *s, amp_tensor *vh, amp_tensor *gu, amp_tensor *gs, amp_tensor *gv);

#endif /* AMP_GRADIENTS_MATRICES_H */
