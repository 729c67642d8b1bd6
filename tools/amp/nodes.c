/* --numa: which CPUs form a node, and a process that keeps to them.
 *
 * No policy of memory is set. Linux gives a page to the node of the CPU that writes to it first, and here all threads
 * of a process run on one node: what they load, pack and compute lies there. OpenMP's threads inherit the CPUs of the
 * thread that starts them, unless the usual variables pin them elsewhere: then --numa is refused. */
#define _GNU_SOURCE /* sched_setaffinity */
#include "nodes.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "run.h"

enum { PATH_SIZE = 512, LINE_SIZE = 4096 };

/* Tests name a folder of their own, as few machines that they run on have two nodes. */
static const char *folder_of_nodes(void) {
    const char *folder = getenv("AMP_TEST_NODES");
    return folder && *folder ? folder : "/sys/devices/system/node";
}

/* ---- Sets of CPUs ------------------------------------------------------------------------------------------------ */
bool run_cpus_has(const run_cpus *cpus, int cpu) {
    return cpus->words[cpu / 64] >> (cpu % 64) & 1;
}

static bool is_empty(const run_cpus *cpus) {
    for (int i = 0; i < RUN_CPU_WORDS; i++) {
        if (cpus->words[i]) return false;
    }
    return true;
}

static run_cpus common(const run_cpus *a, const run_cpus *b) {
    run_cpus both;
    for (int i = 0; i < RUN_CPU_WORDS; i++) both.words[i] = a->words[i] & b->words[i];
    return both;
}

static void add(run_cpus *to, const run_cpus *more) {
    for (int i = 0; i < RUN_CPU_WORDS; i++) to->words[i] |= more->words[i];
}

static bool read_cpu(const char **text, long *cpu) {
    char *end;
    if (!isdigit((unsigned char)**text)) return false;
    *cpu = strtol(*text, &end, 10);
    *text = end;
    return *cpu < RUN_CPUS;
}

/* "0-3,8"; an empty one is of a node that has memory alone. */
static bool read_list(const char *text, run_cpus *cpus) {
    memset(cpus, 0, sizeof *cpus);
    while (*text) {
        long first, last;
        if (!read_cpu(&text, &first)) return false;
        last = first;
        if (*text == '-' && (++text, !read_cpu(&text, &last))) return false;
        for (long cpu = first; cpu <= last; cpu++) cpus->words[cpu / 64] |= UINT64_C(1) << (cpu % 64);
        if (last < first || (*text && *text++ != ',')) return false;
    }
    return true;
}

void run_cpus_write(FILE *out, const run_cpus *cpus) {
    const char *before = "";
    for (int cpu = 0; cpu < RUN_CPUS; cpu++) {
        if (!run_cpus_has(cpus, cpu)) continue;
        const int first = cpu;
        while (cpu + 1 < RUN_CPUS && run_cpus_has(cpus, cpu + 1)) cpu++;
        fprintf(out, first == cpu ? "%s%d" : "%s%d-%d", before, first, cpu);
        before = ",";
    }
}

/* ---- Nodes ------------------------------------------------------------------------------------------------------- */
static int read_node(run_nodes *nodes, int number, const run_cpus *allowed, run_cpus *seen) {
    char path[PATH_SIZE], line[LINE_SIZE] = "";
    run_node node = {.number = number};
    snprintf(path, sizeof path, "%s/node%d/cpulist", folder_of_nodes(), number);
    FILE *file = fopen(path, "re");
    if (!file) return run_fail(AMP_EXIT_USAGE, "--numa: cannot read %s: %s", path, strerror(errno));
    const bool is_read = fgets(line, sizeof line, file) || !ferror(file);
    fclose(file);
    line[strcspn(line, "\n")] = 0;
    if (!is_read || !read_list(line, &node.cpus))
        return run_fail(AMP_EXIT_USAGE, "--numa: %s is '%s'; a list of CPUs like 0-3,8 was expected", path, line);
    const run_cpus twice = common(&node.cpus, seen);
    if (!is_empty(&twice)) return run_fail(AMP_EXIT_USAGE, "--numa: %s has CPUs of another node: '%s'", path, line);
    add(seen, &node.cpus);
    node.cpus = common(&node.cpus, allowed);
    if (!is_empty(&node.cpus)) nodes->items[nodes->count++] = node;
    return AMP_EXIT_OK;
}

static int ascending(const void *a, const void *b) {
    return *(const int *)a - *(const int *)b;
}

/* Numbers of nodes may have gaps. Returns how many there are: 0 also where the system tells of none. */
static int list_nodes(int *numbers) {
    DIR *folder = opendir(folder_of_nodes());
    int count = 0;
    for (const struct dirent *entry; folder && count < RUN_NODES && (entry = readdir(folder));) {
        const char *name = entry->d_name;
        const size_t digits = strncmp(name, "node", 4) == 0 ? strspn(name + 4, "0123456789") : 0;
        if (digits > 0 && digits < 8 && name[4 + digits] == 0) numbers[count++] = atoi(name + 4);
    }
    if (folder) closedir(folder);
    qsort(numbers, (size_t)count, sizeof *numbers, ascending);
    return count;
}

static int find_nodes(run_nodes *nodes) {
    int numbers[RUN_NODES], code = AMP_EXIT_OK;
    run_cpus allowed = {0}, seen = {0};
    const int count = list_nodes(numbers);
    if (sched_getaffinity(0, sizeof allowed, (cpu_set_t *)allowed.words) != 0)
        return run_fail(AMP_EXIT_FAILED, "--numa: cannot ask for this process's CPUs: %s", strerror(errno));
    for (int i = 0; !code && i < count; i++) code = read_node(nodes, numbers[i], &allowed, &seen);
    if (!code && nodes->count == 0) nodes->items[nodes->count++] = (run_node){.number = 0, .cpus = allowed};
    return code;
}

/* A variable that places OpenMP's threads; NULL: none is set. */
static const char *pinning(void) {
    static const char *const names[] = {"GOMP_CPU_AFFINITY", "OMP_PLACES", "OMP_PROC_BIND"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value && *value && strcasecmp(value, "false") != 0) return names[i];
    }
    return NULL;
}

int run_node_bind(const run_node *node) {
    if (sched_setaffinity(0, sizeof node->cpus, (const cpu_set_t *)node->cpus.words) == 0) return AMP_EXIT_OK;
    return run_fail(AMP_EXIT_FAILED, "--numa: cannot keep to the CPUs of node %d: %s", node->number, strerror(errno));
}

int run_nodes_enter(run_nodes *nodes, run_numa numa) {
    memset(nodes, 0, sizeof *nodes);
    nodes->numa = numa;
    if (numa == RUN_ANYWHERE) return AMP_EXIT_OK;
    if (pinning()) /* which has bound this thread already */
        return run_fail(AMP_EXIT_USAGE, "--numa places threads by itself, and %s does too: unset one of the two",
                        pinning());
    const int code = find_nodes(nodes);
    if (code || nodes->count < 2) return code;
    nodes->used = numa == RUN_LOCAL ? 1 : nodes->count;
    return run_node_bind(nodes->items);
}

void run_nodes_write(FILE *out, const run_nodes *nodes) {
    if (nodes->numa == RUN_ANYWHERE) return;
    if (nodes->used == 0) {
        fprintf(out, "There is one NUMA node: --numa changes nothing.");
        return;
    }
    fprintf(out, nodes->used == 1 ? "On one of %d NUMA nodes:" : "A process on each of %d NUMA nodes:", nodes->count);
    for (int i = 0; i < nodes->used; i++) {
        fprintf(out, "%s node %d, CPUs ", i ? ";" : "", nodes->items[i].number);
        run_cpus_write(out, &nodes->items[i].cpus);
    }
    fprintf(out, ".");
}
