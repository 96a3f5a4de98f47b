/* SPDX-License-Identifier: Apache-2.0 */
/* grouped and grouped_grad as text: the constants that grouped.inc.c is compiled with. */
#include "kernels/rows.h"
#include "kernels/texts.h"

/* Of a block: as many rows as fill the second-level cache when packed (240 KiB; a multiple of 12 and of 6), columns so that packing
 * them is little beside the product, and as deep as the first-level cache holds a panel of 32 columns. */
enum { ROWS = 240, COLS = 256, DEPTH = 256 };

/* Bytes of the text's struct at most, whatever the vectors: panels of 6 rows have 8 lanes. */
enum { ROOM = (4 * (DEPTH * (32 + ROWS / 6 * 8) + 12 * 32 + 16) + 63) / 64 * 64 };

size_t own_grouped_workspace(const BigCall *call) { return (size_t)ROOM * (size_t)call->threads; }

static void write_text(const char *run, const char *symbol, Text *source) {
  text_printf(source,
              "#define SYMBOL %s\n#define RUN %s\n#define ROOM %d\n#define GR_ROWS %d\n#define GR_COLS %d\n#define GR_DEPTH %d\n%s",
              symbol, run, ROOM, ROWS, COLS, DEPTH, text_grouped);
}

void own_grouped_text(const BigCall *call, const char *symbol, Text *source) {
  (void)call; /* all of it is looked at when it runs */
  write_text("hpt_grouped", symbol, source);
}

void own_grouped_grad_text(const BigCall *call, const char *symbol, Text *source) {
  (void)call;
  write_text("hpt_grouped_grad", symbol, source);
}
