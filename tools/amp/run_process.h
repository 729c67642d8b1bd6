/* amp run and bench: processes of the tool's own, in which nothing of libamp has run before. */
#ifndef AMP_TOOL_RUN_PROCESS_H
#define AMP_TOOL_RUN_PROCESS_H

#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

typedef struct run_process {
    pid_t id;
    int from, to; /* pipes: what it tells, and what it is told */
} run_process;

/* Its whole work: returns its exit code, after it has said what is wrong. */
typedef int run_process_work(void *context, int in, int out);

/* Starts one; it ends with this process. No thread may have been started here before: amp_get_num_threads() is 1 in
 * such a process. To be ended by run_process_end unless it fails. */
int run_process_start(run_process *p, run_process_work *work, void *context);
/* Waits for its end, and says what ended it; `told`: it said all that it was to. usage: may be NULL. */
int run_process_end(run_process *p, const char *what, bool told, struct rusage *usage);
/* Ends it at once, and says nothing. */
void run_process_stop(run_process *p);
/* All bytes, however many pieces they come in; false: the other end is closed. */
bool run_process_read(int from, void *to, size_t bytes);

#endif /* AMP_TOOL_RUN_PROCESS_H */
