/* Marks what every call of an op passes through. */
#ifndef AMP_CORE_HOT_H
#define AMP_CORE_HOT_H

/* The linker keeps hot functions together. The way of a small product is 360 lines of instruction cache; strewn over
 * the library's three megabytes, more than eight of them meet in some sets, push each other out at each call, and cost
 * it 30 to 60 ns, by the luck of each build. */
#define AMP_HOT __attribute__((hot))

/* What a hot function leaves to a function of its own because few calls need it. Inlined, all calls would save its
 * registers: a dozen instructions in each function on the way, of 1,500 that a small call has. */
#define AMP_APART __attribute__((noinline))

#endif /* AMP_CORE_HOT_H */
