/* A library that has nothing of what is looked for in it. */
extern int amp_fake_nothing;
int amp_fake_nothing;
