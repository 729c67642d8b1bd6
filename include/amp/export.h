/* Symbol visibility: everything is hidden but what carries AMP_API. */
#ifndef AMP_EXPORT_H
#define AMP_EXPORT_H

#if defined(AMP_STATIC)
#define AMP_API
#elif defined(_WIN32)
#define AMP_API __declspec(dllimport)
#else
#define AMP_API __attribute__((visibility("default")))
#endif

#endif /* AMP_EXPORT_H */
