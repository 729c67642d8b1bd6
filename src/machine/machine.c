/* The processor's name, cores and caches, and the share of them that this process has.
 *
 * From /proc and /sys alone: hwloc would tell the same, but loads whatever plugins (OpenCL, CUDA, X11) a machine has
 * into every process that computes. Where /sys is absent each logical CPU counts as a core. */
#define _GNU_SOURCE /* sched_getaffinity, CPU_ALLOC */
#include <ctype.h>
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "amp/system.h"

enum { MAX_CPUS = 4096, PATH_SIZE = 512 };

static amp_cpu_info info;
static char model[96] = "unknown";
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* First line of the file, without its end. */
static bool read_line(char *line, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
static bool read_line(char *line, size_t size, const char *format, ...) {
    char path[PATH_SIZE];
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(path, sizeof path, format, arguments);
    va_end(arguments);
    FILE *file = length < (int)sizeof path ? fopen(path, "re") : NULL;
    if (!file) return false;
    const bool read = fgets(line, (int)size, file) != NULL;
    fclose(file);
    if (read) line[strcspn(line, "\n")] = 0;
    return read;
}

static void read_model(void) {
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "re");
    while (file && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon) continue;
        colon += strspn(colon, ": \t");
        colon[strcspn(colon, "\n")] = 0;
        snprintf(model, sizeof model, "%.*s", (int)sizeof model - 1, colon);
        break;
    }
    if (file) fclose(file);
    info.model = model;
}

/* ---- Cores ---------------------------------------------------------------------------------------------------- */

static int first_sibling(int cpu) {
    char line[256];
    if (!read_line(line, sizeof line, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu)) return cpu;
    return isdigit((unsigned char)*line) ? atoi(line) : cpu;
}

/* Where variables (OMP_PROC_BIND, OMP_PLACES, GOMP_CPU_AFFINITY) pin threads, the OpenMP runtime has pinned the first
 * one before main: what it may run on is its place, while the process has all places. Where nothing pins, the places
 * say nothing: libgomp has none then, and libomp one with all CPUs of the time it was loaded. */
static void add_places(cpu_set_t *allowed, size_t size) {
    static int cpus[MAX_CPUS];
    if (omp_get_proc_bind() == omp_proc_bind_false) return;
    for (int place = 0; place < omp_get_num_places(); place++) {
        const int count = omp_get_place_num_procs(place);
        if (count < 1 || count > MAX_CPUS) continue;
        omp_get_place_proc_ids(place, cpus);
        for (int i = 0; i < count; i++) CPU_SET_S((size_t)cpus[i], size, allowed);
    }
}

static void read_cores(void) {
    static unsigned char seen[MAX_CPUS];
    cpu_set_t *allowed = CPU_ALLOC(MAX_CPUS);
    const size_t size = CPU_ALLOC_SIZE(MAX_CPUS);
    info.logical_cpus = info.physical_cores = 1;
    if (allowed && sched_getaffinity(0, size, allowed) == 0) {
        add_places(allowed, size);
        info.logical_cpus = info.physical_cores = 0;
        for (int cpu = 0; cpu < MAX_CPUS; cpu++) {
            if (!CPU_ISSET_S(cpu, size, allowed)) continue;
            const int leader = first_sibling(cpu) % MAX_CPUS;
            info.logical_cpus++;
            info.physical_cores += !seen[leader];
            seen[leader] = 1;
        }
    }
    if (allowed) CPU_FREE(allowed);
    char line[64];
    info.numa_nodes = 0;
    while (info.numa_nodes < 1024 &&
           read_line(line, sizeof line, "/sys/devices/system/node/node%d/cpulist", info.numa_nodes))
        info.numa_nodes++;
    if (!info.numa_nodes) info.numa_nodes = 1;
}

/* ---- Caches --------------------------------------------------------------------------------------------------- */

/* "32768K" */
static size_t parse_size(const char *text) {
    char *end;
    const unsigned long long value = strtoull(text, &end, 10);
    const int shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
    return (size_t)value << shift;
}

/* CPUs in a list like "0-3,8,10-11". */
static int count_list(const char *list) {
    int count = 0;
    while (isdigit((unsigned char)*list)) {
        char *end;
        const long first = strtol(list, &end, 10), last = *end == '-' ? strtol(end + 1, &end, 10) : first;
        count += (int)(last - first + 1);
        list = *end == ',' ? end + 1 : end;
    }
    return count;
}

static void read_caches(void) {
    char line[256];
    int cpu = sched_getcpu();
    if (cpu < 0) cpu = 0;
    for (int i = 0; i < 16; i++) {
        if (!read_line(line, sizeof line, "/sys/devices/system/cpu/cpu%d/cache/index%d/level", cpu, i)) break;
        const int level = atoi(line);
        if (level < 1 || level > 3) continue;
        if (!read_line(line, sizeof line, "/sys/devices/system/cpu/cpu%d/cache/index%d/type", cpu, i)) continue;
        if (!strcmp(line, "Instruction")) continue;
        if (read_line(line, sizeof line, "/sys/devices/system/cpu/cpu%d/cache/index%d/size", cpu, i))
            info.cache_bytes[level - 1] = parse_size(line);
        if (read_line(line, sizeof line, "/sys/devices/system/cpu/cpu%d/cache/index%d/shared_cpu_list", cpu, i))
            info.cache_shared_by[level - 1] = count_list(line);
    }
}

/* ---- Control group -------------------------------------------------------------------------------------------- */

static void lower_quota(double limit) {
    if (limit > 0 && (info.quota == 0 || limit < info.quota)) info.quota = limit;
}

/* cgroup 2: "max 100000" or "150000 100000". */
static void read_quota_v2(const char *group) {
    char line[128];
    double quota, period;
    if (read_line(line, sizeof line, "/sys/fs/cgroup%s/cpu.max", group) &&
        sscanf(line, "%lf %lf", &quota, &period) == 2 && period > 0)
        lower_quota(quota / period);
}

/* cgroup 1: two files; the quota is -1 where there is none. */
static void read_quota_v1(const char *group) {
    char quota[64], period[64];
    if (read_line(quota, sizeof quota, "/sys/fs/cgroup/cpu%s/cpu.cfs_quota_us", group) &&
        read_line(period, sizeof period, "/sys/fs/cgroup/cpu%s/cpu.cfs_period_us", group) && atof(period) > 0)
        lower_quota(atof(quota) / atof(period));
}

/* In a list like "cpu,cpuacct". */
static bool names_cpu(const char *list) {
    for (; *list; list += strcspn(list, ","), list += *list == ',') {
        if (strcspn(list, ",") == 3 && !strncmp(list, "cpu", 3)) return true;
    }
    return false;
}

/* A limit may be set on the process's group and on every group above it. Inside a container the group's own name may
 * not exist under the mount; its root then stands for it. */
static void read_quotas(void) {
    char line[PATH_SIZE];
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group) continue;
        *group++ = 0;
        const bool v2 = !strcmp(controllers, ":"), v1 = names_cpu(controllers + 1);
        for (char *end = group + strlen(group); (v1 || v2) && end; end = strrchr(group, '/')) {
            *end = 0;
            (v2 ? read_quota_v2 : read_quota_v1)(group);
        }
    }
    if (file) fclose(file);
}

static void read_machine(void) {
    read_model();
    read_cores();
    read_caches();
    read_quotas();
}

const amp_cpu_info *amp_cpu(void) {
    pthread_once(&once, read_machine);
    return &info;
}
