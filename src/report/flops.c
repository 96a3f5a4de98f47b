/* SPDX-License-Identifier: Apache-2.0 */
#include "src/report/flops.h"

#include <math.h>

Flops flops_per_token(const FlopsShape *s) {
  double products = 6 * (double)(s->parameters - s->embedding_parameters) - s->spared_products;
  double attentions = 6 * (double)s->layers - 4 * (double)s->spared_attentions;
  double S = (double)s->seq_len, W = s->window_layers && s->window < s->seq_len ? (double)s->window : S;
  double share = s->layers ? (double)s->window_layers / (double)s->layers : 0, seen = (1 - share) * S + share * W * (2 - W / S);
  double attention = attentions * (double)s->heads * (double)s->head_dim * seen;
  return (Flops){.causal = products + attention, .full = products + 2 * attention};
}

Flops speed_per_token(const Speed *speed, const Flops *step) { return step->full > 0 ? *step : speed->per_token; }

double speed_tokens(double tokens, double seconds) { return seconds > 0 && tokens > 0 ? tokens / seconds : NAN; }

double speed_flops(const Speed *speed, double flops_per_token, double tokens_per_s) {
  return flops_per_token > 0 && speed->devices > 0 ? flops_per_token * tokens_per_s / speed->devices : NAN;
}

double speed_mfu(const Speed *speed, double flops_per_token, double tokens_per_s) {
  return speed->peak > 0 ? speed_flops(speed, flops_per_token, tokens_per_s) / speed->peak : NAN;
}
