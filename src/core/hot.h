/* Marks what every call of an op passes through. */
#ifndef AMP_CORE_HOT_H
#define AMP_CORE_HOT_H

/* The linker keeps hot functions together. The way of a small product is 360 lines of instruction cache; strewn over
 * the library's three megabytes, more than eight of them meet in some sets, push each other out at each call, and cost
 * it 30 to 60 ns, by the luck of each build. */
#define AMP_HOT __attribute__((hot))

#endif /* AMP_CORE_HOT_H */
