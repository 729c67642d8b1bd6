/* Losses of pairs and triples of vectors: cosine_embedding_loss, triplet_margin_loss. */
#include <math.h>

#include "amp/ops.h"
#include "cpu/cpu_steps.h"
#include "cpu/elementwise/elementwise.h"

/* ---- cosine_embedding_loss --------------------------------------------------------------------------------------- */

static const double cosine_epsilon = 1e-12; /* PyTorch's */

static void cosine_losses(void *context, void *out, const void *const *in, int64_t n) {
    const double margin = *(const double *)context;
    const double *product = in[0], *first = in[1], *second = in[2], *target = in[3];
    for (int64_t i = 0; i < n; i++) {
        const double c = product[i] / sqrt((first[i] + cosine_epsilon) * (second[i] + cosine_epsilon));
        const double apart = c - margin < 0.0 ? 0.0 : c - margin;
        ((double *)out)[i] = target[i] == 1.0 ? 1.0 - c : target[i] == -1.0 ? apart : 0.0;
    }
}

amp_status amp_cpu_cosine_losses(const amp_call *call, const amp_operand *sums, int count, double margin,
                                 amp_tensor *losses) {
    (void)call;
    amp_operands_run(sums, count, AMP_F64, AMP_F64, cosine_losses, &margin, 8, losses);
    return AMP_OK;
}

/* ---- triplet_margin_loss ----------------------------------------------------------------------------------------- */

/* in[2], where there is one, is the distance of the positive from the negative. */
typedef struct triplet {
    double margin;
    bool swap;
} triplet;

static void triplet_losses(void *context, void *out, const void *const *in, int64_t n) {
    const triplet *t = context;
    const double *positive = in[0], *negative = in[1], *between = t->swap ? in[2] : in[1];
    for (int64_t i = 0; i < n; i++) {
        const double far = between[i] < negative[i] || between[i] != between[i] ? between[i] : negative[i];
        const double loss = t->margin + positive[i] - far;
        ((double *)out)[i] = loss < 0.0 ? 0.0 : loss;
    }
}

amp_status amp_cpu_triplet_losses(const amp_call *call, const amp_operand *distances, int count, double margin,
                                  amp_tensor *losses) {
    triplet t = {margin, count == 3};
    (void)call;
    amp_operands_run(distances, count, AMP_F64, AMP_F64, triplet_losses, &t, 8, losses);
    return AMP_OK;
}
