/* Numbers in text, read alike in every locale. */
#ifndef AMP_CORE_NUMBER_H
#define AMP_CORE_NUMBER_H

/* strtod of the C locale: "1.5" is one and a half wherever the program runs. */
double amp_read_number(const char *text, char **end);

#endif /* AMP_CORE_NUMBER_H */
