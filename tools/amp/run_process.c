/* amp run and bench: a process, two pipes, and how it ended. */
#define _GNU_SOURCE /* pipe2, wait4 */
#include "run_process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "run.h"

enum { READ, WRITE };

static void close_both(const int ends[2]) {
    close(ends[READ]);
    close(ends[WRITE]);
}

/* Its ends: told[READ], tells[WRITE]. Who starts it may be gone: it lives no longer than there is somebody to tell. */
static _Noreturn void be(run_process_work *work, void *context, const int told[2], const int tells[2]) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(told[WRITE]);
    close(tells[READ]);
    const int code = work(context, told[READ], tells[WRITE]);
    fflush(NULL);
    _exit(code);
}

int run_process_start(run_process *p, run_process_work *work, void *context) {
    int told[2], tells[2];
    if (pipe2(told, O_CLOEXEC) != 0) return run_fail(AMP_EXIT_FAILED, "cannot make a pipe: %s", strerror(errno));
    if (pipe2(tells, O_CLOEXEC) != 0) {
        const int error = errno;
        close_both(told);
        return run_fail(AMP_EXIT_FAILED, "cannot make a pipe: %s", strerror(error));
    }
    fflush(NULL);
    p->id = fork();
    if (p->id == 0) be(work, context, told, tells);
    const int error = errno;
    close(told[READ]);
    close(tells[WRITE]);
    p->from = tells[READ];
    p->to = told[WRITE];
    if (p->id > 0) return AMP_EXIT_OK;
    close(p->from);
    close(p->to);
    return run_fail(AMP_EXIT_FAILED, "cannot start a process: %s", strerror(error));
}

static int judge(int status, bool told, const char *what) {
    if (WIFSIGNALED(status))
        return run_fail(AMP_EXIT_FAILED, "%s ended with signal %d (%s)%s", what, WTERMSIG(status),
                        strsignal(WTERMSIG(status)), WTERMSIG(status) == SIGKILL ? ": was memory short?" : "");
    if (WEXITSTATUS(status) == AMP_EXIT_OK && !told) return run_fail(AMP_EXIT_FAILED, "%s told no times", what);
    return WEXITSTATUS(status); /* which has said why */
}

int run_process_end(run_process *p, const char *what, bool told, struct rusage *usage) {
    struct rusage its;
    int status = 0;
    close(p->to);
    while (wait4(p->id, &status, 0, usage ? usage : &its) < 0 && errno == EINTR) continue;
    close(p->from);
    run_progress_end();
    return judge(status, told, what);
}

void run_process_stop(run_process *p) {
    kill(p->id, SIGKILL);
    close(p->to);
    while (waitpid(p->id, NULL, 0) < 0 && errno == EINTR) continue;
    close(p->from);
}

bool run_process_read(int from, void *to, size_t bytes) {
    char *at = to;
    while (bytes > 0) {
        const ssize_t got = read(from, at, bytes);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        at += got;
        bytes -= (size_t)got;
    }
    return true;
}
