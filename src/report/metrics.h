/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.jsonl, a JSON object a line, and a TensorBoard event file beside it; rank 0 has both.
 *
 *   {"type":"start","step":0,"attempt":1,"ranks":…,"version":…,"kernels":…,"cached":true,"seconds":…,"mpi_seconds":…,
 *    "plan_seconds":…,"kernel_seconds":…,"load_seconds":…,"phases":{NAME:…},"planned_gib":…,"allocated_gib":…,"beside_gib":…,
 *    "free_gib":…,"time":…}     (beside_gib: on GPUs; phases, in their order: seconds of the rank that each took longest, so that
 *                                one for which the others wait counts there and in the next)
 *   {"type":"step","step":1,"tokens":…,"loss":…,"grad_norm":…,"lr":…,"z_loss":…,"router_loss":…,"seconds":…,"tokens_per_second":…,"mfu_causal":…,
 *    "mfu_full":…,"memory_gib":…,"beside_gib":…,"time":…}      (skipped, why, where nothing was changed: "nonfinite", "spike",
 *                                                               "loss_scale", "tokens"; connect_seconds, the first of several
 *                                                               GPUs: how long communicators took, from before programs were
 *                                                               made, and connect_waited_seconds, what the step waited for them)
 *   {"type":"eval","step":…,"name":…,"loss":…,"bits_per_byte":…,"tokens":…,"seconds":…,"time":…}
 *   {"type":"straggler","step":…,"rank":…,"node":…,"gpu":…,"slower":0.11,"mhz":…,"mhz_most":…,"slowed":"heat","over":false,"time":…}
 *   {"type":"back","step":…,"from":…,"first_batch":…,"batches":…,"why":…,"time":…}   (of the data, left out)
 *   {"type":"save","step":…,"bytes":…,"seconds":…,"stalled_seconds":…,"time":…}
 *
 * Numbers are the shortest that read back as the same double; what is unknown or not finite is null.  time is in seconds
 * since 1970.  A step stands once in the file whatever the number of attempts: a resumed run cuts what lies behind its
 * checkpoint, and what a checkpoint needs is on disk before it is committed if metrics_sync is called in between. */
#ifndef REPORT_METRICS_H
#define REPORT_METRICS_H

#include "src/base/fail.h"
#include "src/report/events.h"
#include "src/report/flops.h"

typedef struct Metrics Metrics;

/* step: the updates done already, 0 for a fresh run.  Objects of later steps leave folder/metrics.jsonl for cut_path (created
 * only if there are any; NULL: dropped), in one rename; a last line without its end is dropped. */
Metrics *metrics_open(const char *folder, int64_t step, const char *cut_path);
void metrics_close(Metrics *metrics); /* NULL is fine */

void metrics_start(Metrics *metrics, const StartEvent *event);
void metrics_step(Metrics *metrics, const Speed *speed, const StepEvent *event);
void metrics_back(Metrics *metrics, const BackEvent *event);
void metrics_eval(Metrics *metrics, const EvalEvent *event);
void metrics_save(Metrics *metrics, const SaveEvent *event);
void metrics_straggler(Metrics *metrics, const StragglerEvent *event);
bool metrics_sync(Metrics *metrics, Why *why); /* all of it is on disk */

#endif
