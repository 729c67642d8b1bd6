/* Checkpoints: all that a run of training needs to go on, in one safetensors file. A run that is killed at any moment
 * and goes on from its last file has the same bits as one that was not.
 *
 *     int64_t step = 0;
 *     const amp_training run = AMP_TRAINING(p, .optimizers = {opt}, .schedulers = {schedule}, .step = &step);
 *     if (access("run.safetensors", F_OK) == 0) amp_training_load(&run, "run.safetensors");
 *     while (step < steps) {
 *         …
 *         step++;
 *         if (step % 100 == 0) amp_training_save(&run, "run.safetensors");
 *     }
 *
 * (amp_checkpoint is another thing: it recomputes.) Not in it: plateaus and apex's scalers, whose states are a few
 * numbers (amp_plateau_get_state, amp_apex_loss_scaler), to be kept with the program's own. In the file are
 * "model.<name>" of each parameter and buffer, "optimizer0.<…>" as amp_optimizer_state has it, "lbfgs0.<…>",
 * "scheduler0.step" and "scheduler0.initial_lr", "scaler0.<…>", "generator0.state", "random.<device>" (seed and offset
 * of its default generator) and "training.step". */
#ifndef AMP_TRAINING_H
#define AMP_TRAINING_H

#include "amp/grad_scaler.h"
#include "amp/lbfgs.h"
#include "amp/optimizer.h"
#include "amp/parameters.h"
#include "amp/scheduler.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Most optimizers, schedulers, scalers and generators, of each. */
#define AMP_TRAINING_MOST 8

/* What a run consists of. The default generators of all devices are always part of it. What is NULL is not; lists end
 * where NULL stands. */
typedef struct amp_training {
    size_t struct_size AMP_SIZE_OF_(amp_training);
    amp_parameters *parameters; /* and buffers: of batch_norm, an order of the data */
    amp_optimizer *optimizers[AMP_TRAINING_MOST];
    amp_scheduler *schedulers[AMP_TRAINING_MOST];
    amp_grad_scaler *scalers[AMP_TRAINING_MOST];
    amp_generator *generators[AMP_TRAINING_MOST]; /* the program's own */
    amp_lbfgs *lbfgs[AMP_TRAINING_MOST];
    int64_t *step; /* steps made: read by save, set by load; NULL: the file has none */
} amp_training;

/* Writes the file: beside it first, flushed to the disk, renamed over it, and the folder flushed. So whatever happens,
 * a reader finds the file from before or the new one, whole. (A process that is killed while it writes may leave
 * "<path>.….part" behind.) Call it between steps. Errors: a parameter that was released; a scaler between a step and
 * its update; those of files, a full disk among them; no memory. */
AMP_API amp_status amp_training_save(const amp_training *training, const char *path);

/* Gives everything the state of the file, in place. Errors, of which each says what differs: a file that is no
 * checkpoint, or cut short; a parameter or buffer that one side lacks, or of another shape or dtype; another optimizer
 * or scheduler, or more or less of them; a step on one side alone; no memory. Then nothing is changed. */
AMP_API amp_status amp_training_load(const amp_training *training, const char *path);

#ifndef __cplusplus
/* const amp_training run = AMP_TRAINING(p, .optimizers = {opt}); */
#define AMP_TRAINING(...)                                                                                              \
    { .struct_size = sizeof(amp_training), .parameters = __VA_ARGS__ }
#endif

#ifdef __cplusplus
}
#endif

#endif /* AMP_TRAINING_H */
