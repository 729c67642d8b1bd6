/* amp info: the machine as libamp sees it. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "amp/amp.h"
#include "command.h"
#include "info_devices.h"
#include "info_kernels.h"
#include "machine/isa.h"
#include "policy/policy.h"

static const char help[] =
    "usage: amp info [--kernels] [--json]\n"
    "       amp info --ops [GLOB] [--load FILE] [--json]\n\n"
    "Prints what libamp found on this machine: processor, caches, each instruction set with the\n"
    "check that failed where it cannot be used, threads, libraries, and the CUDA backend.\n\n"
    "  --kernels         also which kernel each family runs, and why not a faster one\n"
    "  --ops [GLOB]      instead, the ops (those whose name matches): policies, forms, whether they run;\n"
    "                    of one name also how it is called in C, each option with its default\n"
    "  --load FILE       a shared object that defines ops of its own (amp/user.h), which are listed too\n"
    "  --json            the same for programs\n"
    "  --help            this text\n";

static void print_size(const char *name, size_t bytes, int shared_by) {
    if (bytes == 0) return;
    const bool mega = bytes >= (1u << 20);
    printf("  %-12s %zu %s", name, bytes >> (mega ? 20 : 10), mega ? "MB" : "KB");
    printf(shared_by > 1 ? ", shared by %d CPUs\n" : "\n", shared_by);
}

static void print_people(void) {
    const amp_cpu_info *cpu = amp_cpu();
    static const char *const caches[] = {"L1 data", "L2", "L3"};
    printf("libamp %s\n\nProcessor\n  %-12s %s\n  %-12s %d physical, %d logical available", amp_version_string(),
           "model", cpu->model, "cores", cpu->physical_cores, cpu->logical_cpus);
    if (cpu->quota > 0) printf(", quota %.1f", cpu->quota);
    printf("; %d NUMA node%s\n", cpu->numa_nodes, cpu->numa_nodes == 1 ? "" : "s");
    for (int i = 0; i < 3; i++) print_size(caches[i], cpu->cache_bytes[i], cpu->cache_shared_by[i]);
    printf("\nInstruction sets\n");
    for (int i = 0; i < AMP_ISA_COUNT; i++) {
        const amp_isa isa = (amp_isa)i;
        printf("  %-12s %s%s\n", amp_isa_name(isa),
               amp_isa_usable(isa) ? "usable" : "not usable: ", amp_isa_reason(isa));
    }
    printf("  bf16 runs on %s\n", amp_isa_name(amp_isa_best()));
    printf("\nThreads\n  %-12s %d\n", "in use", amp_get_num_threads());
    printf("\nLibraries\n  %-12s %s\n  %-12s %s\n", "oneDNN", amp_onednn_version(), "OpenMP", amp_openmp_version());
    amp_print_devices();
}

static json_t *isas_json(void) {
    json_t *list = json_array();
    for (int i = 0; i < AMP_ISA_COUNT; i++) {
        const amp_isa isa = (amp_isa)i;
        json_array_append_new(list, json_pack("{s:s, s:b, s:s}", "name", amp_isa_name(isa), "usable",
                                              (int)amp_isa_usable(isa), "reason", amp_isa_reason(isa)));
    }
    return list;
}

static int print_json(bool kernels) {
    const amp_cpu_info *cpu = amp_cpu();
    json_t *root = json_pack("{s:s, s:{s:s, s:i, s:i, s:f, s:i, s:I, s:I, s:I}, s:o, s:s, s:i, s:s, s:s, s:o}",
                             "libamp", amp_version_string(), "cpu", "model", cpu->model, "physical_cores",
                             cpu->physical_cores, "logical_cpus", cpu->logical_cpus, "quota", cpu->quota, "numa_nodes",
                             cpu->numa_nodes, "l1d_bytes", (json_int_t)cpu->cache_bytes[0], "l2_bytes",
                             (json_int_t)cpu->cache_bytes[1], "l3_bytes", (json_int_t)cpu->cache_bytes[2], "isas",
                             isas_json(), "best_isa", amp_isa_name(amp_isa_best()), "threads", amp_get_num_threads(),
                             "onednn", amp_onednn_version(), "openmp", amp_openmp_version(), "cuda", amp_cuda_json());
    if (root && kernels) {
        json_object_set_new(root, "kernels", amp_kernels_json());
        json_object_set_new(root, "kernel_rows", amp_kernel_rows_json());
    }
    char *text = root ? json_dumps(root, JSON_INDENT(2)) : NULL;
    json_decref(root);
    if (!text) {
        fprintf(stderr, "amp info: no memory for the report\n");
        return AMP_EXIT_FAILED;
    }
    puts(text);
    free(text);
    return AMP_EXIT_OK;
}

typedef struct info_options {
    bool json, kernels, ops, help;
    const char *pattern;
} info_options;

static int usage(const char *format, const char *word) {
    fputs("amp info: ", stderr);
    fprintf(stderr, format, word);
    fputs("\nTry 'amp info --help'.\n", stderr);
    return AMP_EXIT_USAGE;
}

static int parse(int argc, char **argv, info_options *options) {
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (strcmp(word, "--help") == 0) {
            options->help = true;
        } else if (strcmp(word, "--json") == 0) {
            options->json = true;
        } else if (strcmp(word, "--kernels") == 0) {
            options->kernels = true;
        } else if (strcmp(word, "--ops") == 0) {
            options->ops = true;
        } else if (strcmp(word, "--load") == 0) {
            if (++i == argc) return usage("'%s' needs a value", word);
            if (!amp_tool_load("info", argv[i])) return AMP_EXIT_USAGE;
        } else if (*word == '-') {
            return usage("there is no option '%s'", word);
        } else if (!options->ops || options->pattern) {
            return usage("takes no argument, not '%s'", word);
        } else {
            options->pattern = word;
        }
    }
    return AMP_EXIT_OK;
}

int amp_command_info(int argc, char **argv) {
    info_options options = {0};
    const int wrong = parse(argc, argv, &options);
    if (wrong) return wrong;
    if (options.help) {
        fputs(help, stdout);
        return AMP_EXIT_OK;
    }
    if (options.ops) return amp_print_ops(options.pattern, options.json);
    if (amp_isa_status() != AMP_OK || amp_policy_environment() != AMP_OK) { /* AMP_MAX_ISA, AMP_ALLOW … are nonsense */
        fprintf(stderr, "amp info: %s\n", amp_last_error());
        return AMP_EXIT_USAGE;
    }
    if (options.json) return print_json(options.kernels);
    print_people();
    if (options.kernels) amp_print_kernels();
    return AMP_EXIT_OK;
}
