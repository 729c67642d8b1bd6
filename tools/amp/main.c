/* amp: looks at the machine, runs models, replays recorded operator cases, explains runs. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "amp/version.h"
#include "command.h"

static const struct {
    const char *name;
    amp_command_function *run;
    const char *summary;
} commands[] = {
    {"info", amp_command_info, "this machine: instruction sets, cores, caches, libraries, devices"},
    {"run", amp_command_run, "a model from an ONNX file: times, memory, and f32 beside bf16"},
    {"bench", amp_command_bench, "a model on every instruction set of the machine, side by side"},
    {"convert", amp_command_convert, "a model as a file of ONNX, with the roundings that libamp makes"},
    {"audit", amp_command_audit, "where bf16 adds its error in a model, and a policy: what to keep in f32"},
    {"explain", amp_command_explain, "a recorded run, or a page of a model: types, casts, kernels, times, and why"},
    {"blas", amp_command_blas, "a program whose BLAS libamp takes over, without rebuilding it"},
    {"replay", amp_command_replay, "runs recorded operator cases and compares the results"},
    {"self-check", amp_command_self_check, "whether all computes here as it should, with a file for a report of a bug"},
};

enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

static void print_help(FILE *to) {
    fputs("usage: amp COMMAND [OPTION…] …\n\ncommands:\n", to);
    for (int i = 0; i < COMMAND_COUNT; i++) fprintf(to, "  %-10s %s\n", commands[i].name, commands[i].summary);
    fputs("\n'amp COMMAND --help' tells more about one; 'amp --version' prints the version.\n"
          "Exit codes: 0 all is well, 1 something that was checked does not hold, 2 wrong usage or a bad file.\n",
          to);
}

static int run(int argc, char **argv) {
    const char *word = argc > 1 ? argv[1] : "";
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0) {
        print_help(stdout);
        return AMP_EXIT_OK;
    }
    if (strcmp(word, "--version") == 0) {
        printf("amp %s\n", amp_version_string());
        return AMP_EXIT_OK;
    }
    for (int i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(word, commands[i].name) == 0) return commands[i].run(argc - 1, argv + 1);
    }
    if (argc > 1) {
        fprintf(stderr, "amp: there is no %s '%s'\n\n", *word == '-' ? "option" : "command", word);
    }
    print_help(stderr);
    return AMP_EXIT_USAGE;
}

/* A full disk, say: what a command printed must have arrived before it says that all is well. */
int main(int argc, char **argv) {
    const int code = run(argc, argv);
    const bool failed = fflush(stdout) != 0 || ferror(stdout);
    if (failed) fprintf(stderr, "amp: cannot write the output: %s\n", strerror(errno));
    return failed && code == AMP_EXIT_OK ? AMP_EXIT_FAILED : code;
}
