/* Text out of a picture: PP-OCR's three networks out of ONNX files, in f32 and in bf16. What is of libamp here is in
 * ocr/text_reader.c; the rest is of pictures. */
#include <amp/amp.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "measuring.h"
#include "ocr_report.h"
#include "terminal.h"

static const char usage[] =
    "Usage: ocr [OPTION]... [PICTURE]\n"
    "Reads the text in a PNG file [examples/ocr/sample.png] with PP-OCR, in f32 and, under autocast, in bf16, and "
    "shows\n"
    "both, how sure the network is of each line, and how long each precision takes.\n"
    "\n"
    "  --json         print {\"f32\": [{\"text\", \"confidence\", \"corners\"}], \"bf16\": [...]} and nothing else\n"
    "  --svg FILE     write the picture with boxes and texts (those of bf16), for a browser\n"
    "  --models DIR   folder with ppocr_det.onnx, ppocr_cls.onnx and ppocr_rec.onnx [.deps/models/ppocr]\n"
    "  --threads N    threads to compute with [one for each core]\n"
    "  --help         print this\n"
    "\n"
    "Exit status: 0 if all went well, 1 if something failed, 2 for a wrong command line.\n";

enum { MIN_ROUNDS = 3, MAX_ROUNDS = 31, FAILED = 1, WRONG_USAGE = 2, SENTENCE = 1024 };

typedef struct options {
    const char *picture, *models, *svg;
    int threads;
    bool json;
} options;

/* ---- The point of it all ----------------------------------------------------------------------------------------- */

static bool read_in(int precision, const text_reader *reader, ocr_result *r, char why[SENTENCE]) {
    bool good = false;
    text_page_free(&r->pages[precision]);
    amp_autocast(AMP_DEVICE_CPU, .enabled = AMP_SET(precision == OCR_BF16)) {
        good = text_reader_read(reader, &r->image, &r->pages[precision], why, SENTENCE);
    }
    return good;
}

/* ---- Measuring --------------------------------------------------------------------------------------------------- */

/* A pass whose explain report, which costs some 100 ns a call, names the kernel of the slowest convolution. */
static bool read_noting(int precision, const text_reader *reader, ocr_result *r, char why[SENTENCE]) {
    amp_explain_reset();
    amp_explain_begin();
    const bool good = read_in(precision, reader, r, why);
    amp_explain_end();
    char *report = good ? amp_explain_report(AMP_EXPLAIN_JSON) : NULL;
    const char *row = report ? strstr(report, "\"op\": \"conv") : NULL;
    measuring_copy_string(row, "kernel", r->kernels[precision], sizeof *r->kernels);
    amp_explain_free(report);
    return good;
}

/* f32 and bf16 take turns at going first, for about a second, but as often as a median needs; on a busy machine,
 * once. */
static bool measure(const text_reader *reader, ocr_result *r, char why[SENTENCE]) {
    double find[OCR_PRECISIONS][MAX_ROUNDS], read[OCR_PRECISIONS][MAX_ROUNDS], all[OCR_PRECISIONS][MAX_ROUNDS];
    const double start = measuring_now(), end = start + 1, patience = end + 9, own = measuring_own_time();
    for (int k = 0; k < MAX_ROUNDS && (k == 0 || measuring_now() < (k < MIN_ROUNDS ? patience : end)); k++) {
        for (int turn = 0; turn < OCR_PRECISIONS; turn++) {
            const int p = (turn + k) % OCR_PRECISIONS;
            if (!(k == 0 ? read_noting : read_in)(p, reader, r, why)) return false;
            find[p][k] = r->pages[p].find_seconds;
            read[p][k] = r->pages[p].read_seconds;
            all[p][k] = find[p][k] + read[p][k];
        }
        r->rounds = k + 1;
    }
    r->share = (measuring_own_time() - own) / (measuring_now() - start);
    for (int p = 0; p < OCR_PRECISIONS; p++) {
        r->find_seconds[p] = measuring_median(find[p], r->rounds);
        r->read_seconds[p] = measuring_median(read[p], r->rounds);
        r->all_seconds[p] = measuring_median(all[p], r->rounds);
        const double varied = measuring_spread(all[p], r->rounds);
        if (varied > r->spread) r->spread = varied;
    }
    return true;
}

/* ---- From the command line to the report ------------------------------------------------------------------------- */

/* 0 to go on; else the exit status, plus 1. */
static int parse_options(options *o, int argc, char **argv) {
    enum { JSON = 256, SVG, MODELS, THREADS, HELP };
    static const struct option known[] = {
        {"json", no_argument, NULL, JSON},           {"svg", required_argument, NULL, SVG},
        {"models", required_argument, NULL, MODELS}, {"threads", required_argument, NULL, THREADS},
        {"help", no_argument, NULL, HELP},           {NULL, 0, NULL, 0}};
    *o = (options){.picture = "examples/ocr/sample.png", .models = ".deps/models/ppocr"};
    for (int c; (c = getopt_long(argc, argv, "h", known, NULL)) != -1;) {
        if (c == JSON)
            o->json = true;
        else if (c == SVG)
            o->svg = optarg;
        else if (c == MODELS)
            o->models = optarg;
        else if (c == THREADS)
            o->threads = atoi(optarg) > 0 && atoi(optarg) <= 4096 ? atoi(optarg) : -1;
        else if (c == HELP || c == 'h')
            return fputs(usage, stdout), 1;
        else
            return terminal_complain("ocr", WRONG_USAGE, "--help tells what there is") + 1;
        if (o->threads < 0)
            return terminal_complain("ocr", WRONG_USAGE, "--threads takes a number from 1 to 4096, not '%s'", optarg) +
                   1;
    }
    if (argc - optind > 1)
        return terminal_complain("ocr", WRONG_USAGE, "one picture at a time, not %d", argc - optind) + 1;
    if (argc > optind) o->picture = argv[optind];
    return 0;
}

static int show(const ocr_result *r, const options *o) {
    if (o->svg && !ocr_draw(r, o->svg))
        return terminal_complain("ocr", FAILED, "%s cannot be written: %s", o->svg, strerror(errno));
    if (o->json)
        ocr_report_json(r);
    else if (!ocr_report(r))
        return terminal_complain("ocr", FAILED, "no memory for a report");
    if (fflush(stdout) != 0 || ferror(stdout)) return terminal_complain("ocr", FAILED, "the output cannot be written");
    return 0;
}

/* The first pass prepares the graphs for the picture. */
static bool read_both(const text_reader *reader, ocr_result *r, bool once, char why[SENTENCE]) {
    for (int p = 0; p < OCR_PRECISIONS; p++) {
        if (!read_in(p, reader, r, why)) return false;
    }
    return once || measure(reader, r, why);
}

static int run(const options *o, text_reader *reader, ocr_result *r) {
    char why[SENTENCE] = "";
    if (o->threads > 0) amp_set_num_threads(o->threads);
    if (!picture_open(&r->image, o->picture, why, sizeof why)) return terminal_complain("ocr", FAILED, "%s", why);
    if (!text_reader_open(reader, o->models, why, sizeof why)) {
        const char *hint =
            access(o->models, F_OK) != 0 ? "; `scripts/setup demo` fetches them, --models names them" : "";
        return terminal_complain("ocr", FAILED, "%s%s", why, hint);
    }
    return read_both(reader, r, o->json, why) ? show(r, o) : terminal_complain("ocr", FAILED, "%s", why);
}

int main(int argc, char **argv) {
    options o;
    argv[0] = "ocr"; /* for the messages of getopt_long */
    const int done = parse_options(&o, argc, argv);
    if (done) return done - 1;
    text_reader reader = {0};
    ocr_result result = {.path = o.picture};
    const int status = run(&o, &reader, &result);
    text_reader_close(&reader);
    picture_close(&result.image);
    for (int p = 0; p < OCR_PRECISIONS; p++) text_page_free(&result.pages[p]);
    return status;
}
