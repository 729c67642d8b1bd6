/* What amp_initialize and amp_init make. */
#ifndef AMP_TRAIN_APEX_H
#define AMP_TRAIN_APEX_H

#include "amp/apex.h"
#include "train/loss_scaler.h"
#include "train/optimizer.h"

/* ---- Properties (apex_levels.c) --------------------------------------------------------------------------------------- */
/* Yes, no, or as the level does not say. */
typedef enum amp_apex_choice { AMP_APEX_NONE, AMP_APEX_NO, AMP_APEX_YES } amp_apex_choice;

typedef struct amp_apex_properties {
    bool enabled;
    const char *level;         /* "O1"; static */
    amp_dtype cast_model_type; /* AMP_DTYPE_NONE: nothing is cast */
    amp_apex_choice patch, keep_batchnorm, masters;
    bool is_dynamic;
    double loss_scale; /* of a static scaler */
    double min_scale, max_scale;
    amp_dtype cast_outputs; /* AMP_DTYPE_NONE: as they are */
    int num_losses;
} amp_apex_properties;

/* Those of the level, with the overrides; and what is to be told of them, for amp_free. */
amp_status amp_apex_properties_read(const amp_initialize_args *args, amp_dtype half, amp_apex_properties *p,
                                    char **text);

/* ---- Models (apex_model.c) -------------------------------------------------------------------------------------------- */
/* A tensor, and what it and its gradient become: of the innermost scope the one, nobody's the other. */
typedef struct amp_apex_change {
    amp_tensor *tensor, *elements, *gradient;
} amp_apex_change;

typedef struct amp_apex_changes {
    amp_apex_change *items; /* for amp_free */
    int64_t count, capacity;
} amp_apex_changes;

/* Lets go what was prepared and not used. */
void amp_apex_changes_end(amp_apex_changes *changes);

/* Adds what the models' parameters become; batch norms' stay f32 where these are kept. Nothing is changed yet. */
amp_status amp_apex_prepare_models(const amp_model_list *models, const amp_apex_properties *p, amp_device device,
                                   const char *batchnorm, amp_apex_changes *changes);
/* Adds that the tensor becomes one of that dtype. */
amp_status amp_apex_prepare_tensor(amp_tensor *tensor, amp_dtype dtype, amp_apex_changes *changes);

/* ---- All of it -------------------------------------------------------------------------------------------------------- */
struct amp_optimizer_wrapper {
    amp_apex *apex;
    amp_optimizer *optimizer;
    amp_loss_scaler *scalers;
    bool *skips; /* of each loss since the last step */
    int count, next;
};

struct amp_apex {
    amp_apex_properties properties;
    amp_device device;
    amp_dtype half;
    bool is_handle, has_cache, allow_banned, has_wrapped, tells_casts;
    amp_loss_scaler *scalers; /* num_losses of them */
    amp_optimizer **optimizers;
    int64_t optimizer_count;
    amp_optimizer_wrapper **wrappers;
    int64_t wrapper_count, wrapper_capacity;
    char *text;
};

/* The optimizer goes; nothing of the handle names it any more. */
void amp_apex_forget(amp_apex *apex, const amp_optimizer *optimizer);

/* An enabled one with room for so many scalers and optimizers, which are not filled in; NULL with an error. */
amp_apex *amp_apex_new(const char *what, int scalers, int64_t optimizers);
amp_status amp_apex_read_device(const char *what, amp_device device, amp_dtype given, amp_dtype *half);

#endif /* AMP_TRAIN_APEX_H */
