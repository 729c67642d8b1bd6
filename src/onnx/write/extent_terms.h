/* Numbers that follow from extents: found from what they are in several captures, and written as nodes. */
#ifndef AMP_ONNX_WRITE_EXTENT_TERMS_H
#define AMP_ONNX_WRITE_EXTENT_TERMS_H

#include "onnx/write/free_extents.h"
#include "onnx/write/writer.h"

/* One number in each capture. */
typedef struct amp_term {
    int64_t of[AMP_EXTENT_CAPTURES];
} amp_term;

/* The same model of several extents, node by node, and the one that is made of it. */
typedef struct amp_free_writer {
    const amp_writer *w; /* by capture */
    const amp_free_extents *extents;
    amp_writer *to;
    int *known;  /* values of `to` by those of w[0] */
    int *inputs; /* values of w[0] by the graph's inputs */
    int node;    /* of w[], which is being written: what stands before it is known */
} amp_free_writer;

bool amp_term_is_fixed(const amp_term *t);
bool amp_term_is_same(const amp_term *a, const amp_term *b);
/* Extent `dim` of what value `value` of w[0] is in each capture. */
amp_term amp_term_of_extent(const amp_free_writer *g, int value, int dim);
/* How it stands in the shape of a made value: itself, a name's number, or AMP_MADE_OPEN. */
int64_t amp_term_as_extent(const amp_free_writer *g, const amp_term *t);

/* A vector of these numbers, as a value of `to`; AMP_MADE_NONE: one of them follows from nothing that is known; or an
 * error stands. */
int amp_terms_write(amp_free_writer *g, const amp_term *terms, int count);

/* The value of w[capture] that is this one of w[0], by who makes it; AMP_MADE_NONE: none. */
int amp_free_twin(const amp_free_writer *g, int capture, int value);

/* One model of those of all captures (free_writer.c), in `to`, to be ended also where it fails.
 * AMP_ERROR_NOT_IMPLEMENTED names the node that cannot be written for other extents. */
amp_status amp_write_free(const amp_writer *captures, const amp_free_extents *extents, amp_writer *to);

#endif /* AMP_ONNX_WRITE_EXTENT_TERMS_H */
