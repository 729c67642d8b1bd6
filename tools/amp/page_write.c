/* amp explain model.onnx: the page: its head and its parts. */
#include <inttypes.h>
#include <string.h>
#include <sys/random.h>

#include "amp/system.h"
#include "page.h"

bool page_has(const page *p, run_kind kind) {
    return p->report->options->wanted[kind];
}

void page_text(FILE *out, const char *text) {
    for (; *text; text++) {
        switch (*text) {
        case '&': fputs("&amp;", out); break;
        case '<': fputs("&lt;", out); break;
        case '>': fputs("&gt;", out); break;
        case '"': fputs("&quot;", out); break;
        case '\'': fputs("&#39;", out); break;
        default: fputc(*text, out);
        }
    }
}

const char *page_class(amp_dtype dtype) {
    return dtype == AMP_BF16 ? "bf16" : dtype == AMP_F32 ? "f32" : "other";
}

static const char *file_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Only what has this word may run: should a text get past page_text after all, its script does not. */
static void make_nonce(char nonce[33]) {
    unsigned char bytes[16] = {0};
    const ssize_t got = getrandom(bytes, sizeof bytes, 0);
    for (size_t i = 0; i < sizeof bytes; i++) snprintf(nonce + 2 * i, 3, "%02x", got > 0 ? bytes[i] : 0);
}

static void write_clean(FILE *out, const char *text) {
    char copy[512];
    snprintf(copy, sizeof copy, "%s", text);
    run_clean(copy);
    page_text(out, copy);
}

static void write_head(FILE *out, const page *p, const char *nonce) {
    fprintf(out,
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
            "script-src 'nonce-%s'; base-uri 'none'; form-action 'none'\">\n"
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
            nonce);
    write_clean(out, file_name(p->report->options->model));
    fprintf(out, " – amp explain</title>\n<style>\n%s%s</style>\n</head>\n<body>\n", page_style, page_style_more);
}

static void write_title(FILE *out, const page *p) {
    const run_model *m = p->report->model;
    const int threads = amp_get_num_threads();
    fputs("<header>\n<h1>", out);
    write_clean(out, file_name(p->report->options->model));
    fprintf(out, "</h1>\n<p class=\"soft\">%.*f MB, ONNX opset %" PRId64 ", %" PRId64 " node%s",
            m->bytes < 10000000 ? 2 : 0, (double)m->bytes / 1e6, m->opset, m->nodes, m->nodes == 1 ? "" : "s");
    if (*m->producer) fputs(", made by ", out);
    write_clean(out, m->producer);
    fputs(" · ", out);
    write_clean(out, amp_cpu()->model);
    fprintf(out, ", %s, %d thread%s · libamp %s</p>\n</header>\n", amp_isa_name(amp_isa_best()), threads,
            threads == 1 ? "" : "s", amp_version_string());
}

void page_write(FILE *out, const page *p) {
    char nonce[33];
    make_nonce(nonce);
    write_head(out, p, nonce);
    write_title(out, p);
    fputs("<main>\n", out);
    page_write_summary(out, p);
    page_write_graph(out, p);
    page_write_steps(out, p);
    fputs("</main>\n<footer>Times of steps are medians of runs that stop after each one to be timed: their sum is "
          "somewhat "
          "above the time of a run. Kernels and casts are those that <code>amp explain</code> records, in a warm "
          "run.</footer>\n",
          out);
    fprintf(out, "<script nonce=\"%s\">\n%s%s</script>\n</body>\n</html>\n", nonce, page_script, page_script_more);
}
