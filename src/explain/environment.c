/* AMP_EXPLAIN=FILE: the report of the process that loaded the library, written at its end; also where SIGINT or SIGTERM
 * ends it, for that is how an endless program ends. A child that it forks writes none over it. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "amp/error.h"
#include "amp/explain.h"
#include "explain/record.h"

static pid_t owner; /* 0: nothing is to be written */
static pthread_mutex_t end = PTHREAD_MUTEX_INITIALIZER;

/* 0, or the errno that says why not. */
static int write_file(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    if (!file) return errno;
    const int error = fputs(text, file) < 0 ? errno : 0;
    return fclose(file) != 0 && error == 0 ? errno : error;
}

/* The lock stays closed: whoever comes second waits for the end that the first one brings. */
static void write_report(void) {
    const char *path = getenv("AMP_EXPLAIN");
    pthread_mutex_lock(&end);
    if (!path || !*path) return;
    amp_clear_error();
    char *report = amp_explain_report(AMP_EXPLAIN_JSON);
    const int error = report ? write_file(path, report) : ENOMEM;
    if (error) fprintf(stderr, "libamp: AMP_EXPLAIN: cannot write '%s': %s\n", path, strerror(error));
    amp_explain_free(report);
}

/* ---- Signals: a handler may write nothing, so it wakes a thread that may ----------------------------------------- */
static const int watched[] = {SIGINT, SIGTERM};
enum { WATCHED = sizeof watched / sizeof *watched };

static sem_t stop;
static volatile sig_atomic_t stopped_by;

/* The signal ends the thread's process as if it had never been watched. */
static void end_by(int signal) {
    const struct sigaction plain = {.sa_handler = SIG_DFL};
    sigset_t open;
    sigaction(signal, &plain, NULL);
    sigemptyset(&open);
    sigaddset(&open, signal);
    raise(signal);
    pthread_sigmask(SIG_UNBLOCK, &open, NULL);
}

static void note_signal(int signal) {
    const int error = errno;
    if (getpid() != owner) end_by(signal); /* a forked child has not the thread */
    stopped_by = signal;
    sem_post(&stop);
    errno = error;
}

static void *wait_for_signal(void *unused) {
    while (sem_wait(&stop) != 0) continue;
    write_report();
    end_by(stopped_by);
    return unused;
}

/* Only where a signal would have ended the program; one that handles it later takes our place. */
static void watch_signals(void) {
    const struct sigaction ours = {.sa_handler = note_signal, .sa_flags = SA_RESTART};
    struct sigaction before;
    sigset_t all, mask;
    pthread_t thread;
    sigfillset(&all);
    if (sem_init(&stop, 0, 0) != 0 || pthread_sigmask(SIG_SETMASK, &all, &mask) != 0) return;
    const bool waits = pthread_create(&thread, NULL, wait_for_signal, NULL) == 0;
    if (waits) pthread_detach(thread);
    for (int i = 0; waits && i < WATCHED; i++) {
        if (sigaction(watched[i], NULL, &before) == 0 && !(before.sa_flags & SA_SIGINFO) &&
            before.sa_handler == SIG_DFL)
            sigaction(watched[i], &ours, NULL);
    }
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
}

void amp_explain_begin_from_environment(void) {
    const char *path = getenv("AMP_EXPLAIN");
    if (!path || !*path) return;
    owner = getpid();
    amp_explain_begin();
    watch_signals();
}

__attribute__((destructor)) static void end_of_process(void) {
    if (owner && owner == getpid()) write_report();
}
