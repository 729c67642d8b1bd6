/* The amp tool: one table of commands, each in files of its own. */
#ifndef AMP_TOOL_COMMAND_H
#define AMP_TOOL_COMMAND_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Exit codes of every command. */
enum {
    AMP_EXIT_OK = 0,
    AMP_EXIT_FAILED = 1, /* it ran, and what it checked does not hold */
    AMP_EXIT_USAGE = 2   /* a wrong option, a missing or malformed file */
};

/* argv[0] is the command's own name. Returns the exit code. */
typedef int amp_command_function(int argc, char **argv);

amp_command_function amp_command_info, amp_command_run, amp_command_bench, amp_command_convert, amp_command_explain,
    amp_command_replay, amp_command_audit, amp_command_blas, amp_command_self_check;

/* --load FILE of a command: opens a shared object that defines ops (amp/user.h). False after saying what is wrong. */
bool amp_tool_load(const char *command, const char *file);
/* amp info --ops [GLOB]: the table of ops; pattern NULL: all. */
int amp_print_ops(const char *pattern, bool json);

#ifdef __cplusplus
}
#endif

#endif /* AMP_TOOL_COMMAND_H */
