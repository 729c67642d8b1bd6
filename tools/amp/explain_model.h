/* amp explain of a model: see page.h. */
#ifndef AMP_TOOL_EXPLAIN_MODEL_H
#define AMP_TOOL_EXPLAIN_MODEL_H

/* All arguments of `amp explain`, one of which is a model. */
int explain_model(int argc, char **argv);

#endif /* AMP_TOOL_EXPLAIN_MODEL_H */
