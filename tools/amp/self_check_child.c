/* amp self-check: a process whose output is kept. */
#define _GNU_SOURCE /* environ */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "run.h"
#include "self_check.h"

static const double patience = 600; /* seconds, which a slow machine does not need either */

static int start(pid_t *id, char *const *words, FILE *out, FILE *err) {
    posix_spawn_file_actions_t actions;
    int error = posix_spawn_file_actions_init(&actions);
    if (error) return error;
    error = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (!error) error = posix_spawn_file_actions_adddup2(&actions, fileno(out), STDOUT_FILENO);
    if (!error) error = posix_spawn_file_actions_adddup2(&actions, fileno(err), STDERR_FILENO);
    if (!error) error = posix_spawnp(id, words[0], &actions, NULL, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

static void wait_for(pid_t id, check_child *child) {
    const double began = run_milliseconds();
    const struct timespec nap = {.tv_nsec = 10000000};
    for (pid_t ended = 0; ended != id;) {
        ended = waitpid(id, &child->status, child->is_late ? 0 : WNOHANG);
        if (ended < 0 && errno != EINTR) break;
        child->seconds = (run_milliseconds() - began) / 1e3;
        if (ended == 0 && child->seconds > patience) {
            child->is_late = true;
            kill(id, SIGKILL);
        }
        if (ended == 0) nanosleep(&nap, NULL);
    }
}

/* What was written to the file, as text; NULL without memory. */
static char *read_all(FILE *file) {
    const long bytes = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : 0;
    char *text = malloc((size_t)(bytes > 0 ? bytes : 0) + 1);
    if (!text) return NULL;
    rewind(file);
    text[fread(text, 1, (size_t)(bytes > 0 ? bytes : 0), file)] = '\0';
    return text;
}

static bool run_between(char *const *words, FILE *out, FILE *err, check_child *child) {
    pid_t id = 0;
    const int error = start(&id, words, out, err);
    errno = error;
    if (error) return false;
    wait_for(id, child);
    child->out = read_all(out);
    child->err = read_all(err);
    if (child->out && child->err) return true;
    check_child_free(child);
    errno = ENOMEM;
    return false;
}

/* Files, not pipes: neither waits for the other. */
bool check_child_run(char *const *words, check_child *child) {
    *child = (check_child){0};
    FILE *out = tmpfile(), *err = tmpfile();
    const bool ran = out && err && run_between(words, out, err, child);
    const int error = errno;
    if (out) fclose(out);
    if (err) fclose(err);
    errno = error;
    return ran;
}

void check_child_free(check_child *child) {
    free(child->out);
    free(child->err);
    child->out = child->err = NULL;
}
