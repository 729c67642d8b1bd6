/* amp explain model.onnx: places from Graphviz's dot. It is given numbers and sizes, no text of the model, and is asked
 * for places only: the drawing is ours. */
#define _GNU_SOURCE /* environ */
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "page.h"

static const double inch = 72, patience = 20000; /* px; ms that dot may take */

/* ---- To dot ------------------------------------------------------------------------------------------------------ */
static void ask(FILE *out, const page_picture *p) {
    fputs("digraph g {\nnodesep=0.3; ranksep=0.35; nslimit=2; nslimit1=2; mclimit=0.5;\n"
          "node [shape=box, fixedsize=true, label=\"\"];\nedge [dir=none];\n",
          out);
    for (int i = 0; i < p->node_count; i++)
        fprintf(out, "%d [width=%.3f, height=%.3f];\n", i, p->nodes[i].width / inch, p->nodes[i].height / inch);
    for (int i = 0; i < p->edge_count; i++) fprintf(out, "%d -> %d;\n", p->edges[i].from, p->edges[i].to);
    fputs("}\n", out);
}

static bool wait_for(pid_t id) {
    const double start = run_milliseconds();
    const struct timespec nap = {.tv_nsec = 5000000};
    int status = 0;
    for (;;) {
        const pid_t ended = waitpid(id, &status, WNOHANG);
        if (ended == id) return WIFEXITED(status) && WEXITSTATUS(status) == 0;
        if (ended < 0 && errno != EINTR) return false;
        const double ms = run_milliseconds() - start;
        if (ms > patience) break;
        if (ms > 1000) run_progress("drawing, %.0f s", ms / 1e3);
        nanosleep(&nap, NULL);
    }
    kill(id, SIGKILL);
    waitpid(id, &status, 0);
    return false;
}

/* Files, not pipes: neither waits for the other. */
static bool run_dot(FILE *in, FILE *out) {
    char *const words[] = {"dot", "-Tplain", NULL};
    posix_spawn_file_actions_t actions;
    pid_t id = 0;
    if (posix_spawn_file_actions_init(&actions) != 0) return false;
    int error = posix_spawn_file_actions_adddup2(&actions, fileno(in), STDIN_FILENO);
    if (!error) error = posix_spawn_file_actions_adddup2(&actions, fileno(out), STDOUT_FILENO);
    if (!error) error = posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", 1, 0);
    if (!error) error = posix_spawnp(&id, words[0], &actions, NULL, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    return !error && wait_for(id);
}

/* ---- From dot: "node 3 x y …", "edge 3 4 points x y …", from the bottom up, in inches ---------------------------- */
static bool read_node(page_picture *p, const char *line) {
    int number;
    double x, y;
    if (sscanf(line, "node %d %lf %lf", &number, &x, &y) != 3 || number < 0 || number >= p->node_count) return false;
    p->nodes[number].x = inch * x;
    p->nodes[number].y = p->height - inch * y;
    return true;
}

/* Edges between the same two nodes come in any order. */
static page_edge *edge_between(page_picture *p, int from, int to) {
    for (int i = 0; i < p->edge_count; i++) {
        page_edge *e = &p->edges[i];
        if (e->from == from && e->to == to && !e->points) return e;
    }
    return NULL;
}

static bool read_edge(page_picture *p, const char *line) {
    int from, to, count, used;
    if (sscanf(line, "edge %d %d %d%n", &from, &to, &count, &used) != 3 || count < 4 || count > 100000) return false;
    page_edge *e = edge_between(p, from, to);
    if (!e) return false;
    e->points = malloc(2 * (size_t)count * sizeof *e->points);
    if (!e->points) return false;
    e->point_count = count;
    char *at = (char *)line + used;
    for (int i = 0; i < 2 * count; i++) {
        char *end;
        const double value = inch * strtod(at, &end);
        if (end == at) return false;
        e->points[i] = i % 2 == 0 ? value : p->height - value;
        at = end;
    }
    return true;
}

static bool read_line(page_picture *p, const char *line) {
    double scale, width, height;
    if (strncmp(line, "node ", 5) == 0) return read_node(p, line);
    if (strncmp(line, "edge ", 5) == 0) return read_edge(p, line);
    if (sscanf(line, "graph %lf %lf %lf", &scale, &width, &height) != 3) return true;
    p->width = inch * width;
    p->height = inch * height;
    return true;
}

/* dot tells five digits, which in a high picture are some pixels: lines begin and end at their boxes. */
static void snap(const page_picture *p, page_edge *e) {
    const page_node *a = &p->nodes[e->from], *b = &p->nodes[e->to];
    double *last = e->points + 2 * (e->point_count - 1);
    if (a->y >= b->y) return;
    e->points[1] = a->y + a->height / 2;
    last[1] = b->y - b->height / 2;
}

static void forget(page_picture *p) {
    for (int i = 0; i < p->edge_count; i++) {
        free(p->edges[i].points);
        p->edges[i].points = NULL;
    }
}

static bool read_places(page_picture *p, FILE *in) {
    char *line = NULL;
    size_t room = 0;
    bool good = true;
    rewind(in);
    while (good && getline(&line, &room, in) > 0) good = read_line(p, line);
    free(line);
    for (int i = 0; good && i < p->edge_count; i++) good = p->edges[i].points != NULL;
    for (int i = 0; good && i < p->edge_count; i++) snap(p, &p->edges[i]);
    if (!good) forget(p);
    return good && p->height > 0;
}

enum { MOST_NODES = 4000, MOST_EDGES = 8000 }; /* that dot can place in time */

bool page_dot(page_picture *p) {
    if (p->node_count > MOST_NODES || p->edge_count > MOST_EDGES) return false;
    FILE *in = tmpfile(), *out = tmpfile();
    bool good = in && out;
    if (good) {
        ask(in, p);
        good = fflush(in) == 0;
        rewind(in);
    }
    good = good && run_dot(in, out) && read_places(p, out);
    if (in) fclose(in);
    if (out) fclose(out);
    run_progress_end();
    p->is_dots = good;
    return good;
}
