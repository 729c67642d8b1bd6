/* Reads the text of a picture with PP-OCR: one network finds lines, one tells which are upside down, one reads them. */
#ifndef EXAMPLES_TEXT_READER_H
#define EXAMPLES_TEXT_READER_H

#include <amp/amp.h>

#include "letters.h"
#include "picture.h"
#include "text_boxes.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct text_reader {
    amp_graph *find, *turn, *read;
    letters alphabet;
} text_reader;

typedef struct text_line {
    text_box box; /* in the picture's pixels */
    char *text;
    double confidence;
} text_line;

typedef struct text_page {
    text_line *lines; /* in the order in which people read */
    int count;
    double find_seconds, read_seconds;
} text_page;

/* Opens ppocr_det.onnx, ppocr_cls.onnx and ppocr_rec.onnx in `folder`. false with a sentence in `why`. */
bool text_reader_open(text_reader *r, const char *folder, char *why, size_t room);
void text_reader_close(text_reader *r); /* of zeros, too */

/* Reads a picture, in the thread's region of autocast. false with a sentence in `why`; the page is empty then. */
bool text_reader_read(const text_reader *r, const picture *p, text_page *page, char *why, size_t room);
void text_page_free(text_page *page); /* of zeros, too */

#ifdef __cplusplus
}
#endif

#endif /* EXAMPLES_TEXT_READER_H */
