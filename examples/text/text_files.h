/* The text of a folder. */
#ifndef EXAMPLES_TEXT_FILES_H
#define EXAMPLES_TEXT_FILES_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Reads every file below the folder that looks like text, in the order of names, one behind the other, until there are
 * `most` bytes. Hidden files and folders are left out, and folders named build; links are not followed. *files gets how
 * many were read. The caller frees it. NULL with one sentence in why: no such folder, no text, no memory. */
char *text_files_read(const char *folder, size_t most, size_t *bytes, int *files, char *why, int why_size);

#ifdef __cplusplus
}
#endif

#endif /* EXAMPLES_TEXT_FILES_H */
