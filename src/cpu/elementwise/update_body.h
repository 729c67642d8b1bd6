/* Steps of optimizers over dense elements, in REAL, whose square root is ROOT and absolute value ABSOLUTE; NAME ends
 * their names. */

/* The larger; NaN where one is. */
static inline REAL NAME(larger)(REAL a, REAL b) {
    return a > b || a != a ? a : b;
}

/* Weight decay of 0 adds nothing, also where the parameter is infinite. */
static inline REAL NAME(decayed)(REAL g, REAL decay, REAL x) {
    return decay != 0 ? g + decay * x : g;
}

static void NAME(sgd)(const double *n, REAL *restrict p, const REAL *restrict grad, REAL *const *state, int64_t count) {
    const REAL sign = (REAL)n[0], decay = (REAL)n[1], lr = (REAL)n[2];
    for (int64_t i = 0; i < count; i++) p[i] -= lr * NAME(decayed)(sign * grad[i], decay, p[i]);
    (void)state;
}

/* The first gradient is taken whole: what the buffer has then is not looked at. */
static void NAME(sgd_momentum)(const double *n, REAL *restrict p, const REAL *restrict grad, REAL *const *state,
                               int64_t count) {
    const REAL sign = (REAL)n[0], decay = (REAL)n[1], lr = (REAL)n[2], momentum = (REAL)n[3];
    const REAL kept = n[6] != 0 ? 1 : (REAL)n[4], ahead = n[5] != 0 ? 1 : 0;
    REAL *restrict buffer = state[0];
    if (n[6] != 0) {
        for (int64_t i = 0; i < count; i++) buffer[i] = 0;
    }
    for (int64_t i = 0; i < count; i++) {
        const REAL g = NAME(decayed)(sign * grad[i], decay, p[i]), b = momentum * buffer[i] + kept * g;
        buffer[i] = b;
        p[i] -= lr * (ahead != 0 ? g + momentum * b : b);
    }
}

static void NAME(adam)(const double *n, REAL *restrict p, const REAL *restrict grad, REAL *const *state,
                       int64_t count) {
    const REAL sign = (REAL)n[0], decay = (REAL)n[1], keep = (REAL)n[2], beta1 = (REAL)n[3], beta2 = (REAL)n[4];
    const REAL new1 = (REAL)(1 - n[3]), new2 = (REAL)(1 - n[4]), eps = (REAL)n[5], step = (REAL)n[6], r = (REAL)n[7];
    REAL *restrict average = state[0], *restrict square = state[1];
    for (int64_t i = 0; i < count; i++) {
        const REAL x = p[i] * keep, g = NAME(decayed)(sign * grad[i], decay, x);
        const REAL m = beta1 * average[i] + new1 * g, v = beta2 * square[i] + new2 * g * g;
        average[i] = m;
        square[i] = v;
        p[i] = x - step * m / (ROOT(v) * r + eps);
    }
}

static void NAME(amsgrad)(const double *n, REAL *restrict p, const REAL *restrict grad, REAL *const *state,
                          int64_t count) {
    const REAL sign = (REAL)n[0], decay = (REAL)n[1], keep = (REAL)n[2], beta1 = (REAL)n[3], beta2 = (REAL)n[4];
    const REAL new1 = (REAL)(1 - n[3]), new2 = (REAL)(1 - n[4]), eps = (REAL)n[5], step = (REAL)n[6], r = (REAL)n[7];
    REAL *restrict average = state[0], *restrict square = state[1], *restrict largest = state[2];
    for (int64_t i = 0; i < count; i++) {
        const REAL x = p[i] * keep, g = NAME(decayed)(sign * grad[i], decay, x);
        const REAL m = beta1 * average[i] + new1 * g, v = beta2 * square[i] + new2 * g * g;
        const REAL most = NAME(larger)(largest[i], v);
        average[i] = m;
        square[i] = v;
        largest[i] = most;
        p[i] = x - step * m / (ROOT(most) * r + eps);
    }
}

static void NAME(adagrad)(const double *n, REAL *restrict p, const REAL *restrict grad, REAL *const *state,
                          int64_t count) {
    const REAL sign = (REAL)n[0], decay = (REAL)n[1], lr = (REAL)n[2], eps = (REAL)n[3];
    REAL *restrict sum = state[0];
    for (int64_t i = 0; i < count; i++) {
        const REAL g = NAME(decayed)(sign * grad[i], decay, p[i]), s = sum[i] + g * g;
        sum[i] = s;
        p[i] -= lr * g / (ROOT(s) + eps);
    }
}

static void NAME(rmsprop)(const double *n, REAL *restrict p, const REAL *restrict grad, REAL *const *state,
                          int64_t count) {
    const REAL sign = (REAL)n[0], decay = (REAL)n[1], lr = (REAL)n[2], alpha = (REAL)n[3], eps = (REAL)n[4];
    const REAL momentum = (REAL)n[5], fresh = (REAL)(1 - n[3]);
    const bool has_buffer = n[5] != 0, is_centred = n[6] != 0;
    /* What is not there has an address too: loads are masked, and an emulator reads what the mask leaves out. */
    REAL *restrict square = state[0], *restrict buffer = has_buffer ? state[1] : square;
    REAL *restrict average = is_centred ? state[has_buffer ? 2 : 1] : square;
    for (int64_t i = 0; i < count; i++) {
        const REAL g = NAME(decayed)(sign * grad[i], decay, p[i]), s = alpha * square[i] + fresh * g * g;
        square[i] = s;
        REAL spread = s;
        if (is_centred) {
            average[i] = alpha * average[i] + fresh * g;
            spread -= average[i] * average[i];
        }
        REAL move = g / (ROOT(spread) + eps);
        if (has_buffer) move = buffer[i] = momentum * buffer[i] + move;
        p[i] -= lr * move;
    }
}

static void NAME(adadelta)(const double *n, REAL *restrict p, const REAL *restrict grad, REAL *const *state,
                           int64_t count) {
    const REAL sign = (REAL)n[0], decay = (REAL)n[1], lr = (REAL)n[2], rho = (REAL)n[3], eps = (REAL)n[4];
    const REAL fresh = (REAL)(1 - n[3]);
    REAL *restrict square = state[0], *restrict moved = state[1];
    for (int64_t i = 0; i < count; i++) {
        const REAL g = NAME(decayed)(sign * grad[i], decay, p[i]), s = rho * square[i] + fresh * g * g;
        const REAL move = ROOT(moved[i] + eps) / ROOT(s + eps) * g;
        square[i] = s;
        moved[i] = rho * moved[i] + fresh * move * move;
        p[i] -= lr * move;
    }
}

static void NAME(nadam)(const double *n, REAL *restrict p, const REAL *restrict grad, REAL *const *state,
                        int64_t count) {
    const REAL sign = (REAL)n[0], decay = (REAL)n[1], keep = (REAL)n[2], beta1 = (REAL)n[3], beta2 = (REAL)n[4];
    const REAL new1 = (REAL)(1 - n[3]), new2 = (REAL)(1 - n[4]), eps = (REAL)n[5];
    const REAL of_gradient = (REAL)n[6], of_average = (REAL)n[7];
    REAL *restrict average = state[0], *restrict square = state[1];
    for (int64_t i = 0; i < count; i++) {
        const REAL x = p[i] * keep, g = NAME(decayed)(sign * grad[i], decay, x);
        const REAL m = beta1 * average[i] + new1 * g, v = beta2 * square[i] + new2 * g * g;
        average[i] = m;
        square[i] = v;
        p[i] = x - (of_gradient * g + of_average * m) / (ROOT(v) + eps);
    }
}

static void NAME(radam)(const double *n, REAL *restrict p, const REAL *restrict grad, REAL *const *state,
                        int64_t count) {
    const REAL sign = (REAL)n[0], decay = (REAL)n[1], keep = (REAL)n[2], beta1 = (REAL)n[3], beta2 = (REAL)n[4];
    const REAL new1 = (REAL)(1 - n[3]), new2 = (REAL)(1 - n[4]), eps = (REAL)n[5], step = (REAL)n[6];
    const bool adapts = n[7] != 0;
    REAL *restrict average = state[0], *restrict square = state[1];
    for (int64_t i = 0; i < count; i++) {
        const REAL x = p[i] * keep, g = NAME(decayed)(sign * grad[i], decay, x);
        const REAL m = beta1 * average[i] + new1 * g, v = beta2 * square[i] + new2 * g * g;
        average[i] = m;
        square[i] = v;
        p[i] = x - step * m / (adapts ? ROOT(v) + eps : 1);
    }
}

static void NAME(adamax)(const double *n, REAL *restrict p, const REAL *restrict grad, REAL *const *state,
                         int64_t count) {
    const REAL sign = (REAL)n[0], decay = (REAL)n[1], lr = (REAL)n[2], beta1 = (REAL)n[3], beta2 = (REAL)n[4];
    const REAL new1 = (REAL)(1 - n[3]), eps = (REAL)n[5];
    REAL *restrict average = state[0], *restrict largest = state[1];
    for (int64_t i = 0; i < count; i++) {
        const REAL g = NAME(decayed)(sign * grad[i], decay, p[i]), m = beta1 * average[i] + new1 * g;
        const REAL u = NAME(larger)(beta2 * largest[i], ABSOLUTE(g) + eps);
        average[i] = m;
        largest[i] = u;
        p[i] -= lr * m / u;
    }
}

typedef void NAME(function)(const double *n, REAL *restrict p, const REAL *restrict grad, REAL *const *state,
                            int64_t count);

static NAME(function) * NAME(function_of)(const amp_update_block *b) {
    static NAME(function) *const functions[AMP_UPDATE_KINDS] = {
        [AMP_UPDATE_SGD] = NAME(sgd),           [AMP_UPDATE_ADAM] = NAME(adam),    [AMP_UPDATE_ADAGRAD] = NAME(adagrad),
        [AMP_UPDATE_RMSPROP] = NAME(rmsprop),   [AMP_UPDATE_NADAM] = NAME(nadam),  [AMP_UPDATE_RADAM] = NAME(radam),
        [AMP_UPDATE_ADADELTA] = NAME(adadelta), [AMP_UPDATE_ADAMAX] = NAME(adamax)};
    if (b->kind == AMP_UPDATE_SGD && b->states[0]) return NAME(sgd_momentum);
    if (b->kind == AMP_UPDATE_ADAM && b->states[2]) return NAME(amsgrad);
    return functions[b->kind];
}

void ENTRY(const amp_update_block *b) {
    REAL *const states[AMP_UPDATE_STATES] = {b->states[0], b->states[1], b->states[2]};
    NAME(function_of)(b)(b->numbers, b->parameter, b->gradient, states, b->count);
}
