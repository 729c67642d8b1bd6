/* "Did you mean": which of several names a wrong one was meant for. */
#ifndef AMP_CORE_NEAR_NAME_H
#define AMP_CORE_NEAR_NAME_H

/* The best name so far; begin with {.wanted = name}. */
typedef struct amp_near_name {
    const char *wanted;
    const char *nearest; /* NULL: none is near */
    long score;
} amp_near_name;

/* Offers a name that exists. */
void amp_near_name_offer(amp_near_name *near, const char *name);

/* "; did you mean 'nearest'?", or "" of NULL: the end of a sentence, good until the thread's next call. */
const char *amp_near_name_hint(const char *nearest);

#endif /* AMP_CORE_NEAR_NAME_H */
