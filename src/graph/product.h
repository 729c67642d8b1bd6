/* A product or a convolution in a net with all that it takes along: what the passes read from one node and write to
 * another. */
#ifndef AMP_GRAPH_PRODUCT_H
#define AMP_GRAPH_PRODUCT_H

#include "graph/passes.h"

typedef struct amp_product {
    bool is_conv;
    int input, weight, bias, scale, shift, /* values; AMP_NET_NONE: absent */
        other;                             /* result = attr(scale·product + bias + shift + other) */
    bool
        is_lowered; /* its operands are of bf16, by a region or as they are, for kernels that add what is f32 to them */
    bool is_mixed;  /* no policy casts other */
    amp_dtype dtype;       /* of the result; AMP_DTYPE_NONE: that of the operands */
    const char *join;      /* how a linear's other joins: "add", …; NULL: there is none */
    const char *attr;      /* the activation in convolution_pointwise's words; literal texts */
    const char *algorithm; /* of gelu */
    amp_floats scalars;
    amp_dims stride, padding, dilation; /* of a convolution */
    int64_t groups;
} amp_product;

/* Reads conv1d … conv3d, convolution_pointwise, linear, linear_pointwise, or matmul by a constant matrix. False: the
 * node is none. */
bool amp_product_read(amp_net *net, int k, amp_product *p);

/* Makes node k this one; its first result stays. False: no memory, or no op has all that. */
bool amp_product_write(amp_net *net, int k, const amp_product *p);

/* One channel of each group: such kernels store what they read. */
bool amp_product_is_depthwise(const amp_net *net, const amp_product *p);

/* Output channels. */
int64_t amp_product_channels(const amp_net *net, const amp_product *p);

#endif /* AMP_GRAPH_PRODUCT_H */
