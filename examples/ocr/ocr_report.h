/* What the OCR example prints and draws. */
#ifndef EXAMPLES_OCR_REPORT_H
#define EXAMPLES_OCR_REPORT_H

#include "text_reader.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { OCR_F32, OCR_BF16, OCR_PRECISIONS };

typedef struct ocr_result {
    const char *path;
    picture image;
    text_page pages[OCR_PRECISIONS];
    double find_seconds[OCR_PRECISIONS], read_seconds[OCR_PRECISIONS], all_seconds[OCR_PRECISIONS]; /* medians */
    double spread; /* how many times longer one pass was than another */
    double share;  /* of the time that the program had a processor for */
    int rounds;
    char kernels[OCR_PRECISIONS][48]; /* that the slowest convolution ran in */
} ocr_result;

/* For each line of the one page the other's line in the same place, or -1; so that of both sides each is there once. */
void ocr_match(const text_page *page, const text_page *other, int *places);

/* false: no memory. */
bool ocr_report(const ocr_result *r);
void ocr_report_json(const ocr_result *r);
/* The picture with boxes and texts, for a browser. false with errno. */
bool ocr_draw(const ocr_result *r, const char *path);

#ifdef __cplusplus
}
#endif

#endif /* EXAMPLES_OCR_REPORT_H */
