/* SPDX-License-Identifier: Apache-2.0 */
/* Where a line goes: stdout or stderr, the log, the banner's copy; colour and the redrawn line of a terminal. */
#include "src/report/lines.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "src/base/arena.h"
#include "src/base/clock.h"
#include "src/base/fail.h"
#include "src/base/process.h"
#include "src/base/text.h"
#include "src/report/human.h"
#include "src/report/private.h"

#define CLEAR "\r\033[K"

static const struct {
  const char *type, *code;
} colours[] = {{"note", "\033[2m"},  {"warn", "\033[33m"},  {"eval", "\033[36m"}, {"ckpt", "\033[32m"},
               {"done", "\033[32m"}, {"ready", "\033[32m"}, {"next", "\033[1m"},  {"", "\033[2m"} /* the header */};

static void put(int fd, const Text *text) {
  for (size_t done = 0; done < text->n;) {
    ssize_t n = write(fd, text->at + done, text->n - done);
    if (n <= 0) return; /* a closed pipe must not end the training; the log has it all */
    done += (size_t)n;
  }
}

/* The line with its first word in its type's colour. */
static void paint(Text *text, const Lines *l, const char *line) {
  size_t word = strcspn(line, " ");
  for (size_t i = 0; l->colour && i < sizeof colours / sizeof *colours; i++)
    if (strlen(colours[i].type) == word && !strncmp(colours[i].type, line, word)) {
      if (!word) word = strlen(line);
      text_printf(text, "%s%.*s\033[0m%s\n", colours[i].code, (int)word, line, line + word);
      return;
    }
  text_printf(text, "%s\n", line);
}

static void keep(Lines *l, const char *line) {
  Text text = {0};
  text_printf(&text, "%s\n", line);
  append_add(l->log, text.at, text.n);
  if (!l->ran) text_add(&l->banner, text.at, text.n);
  text_close(&text);
}

void lines_emit(Lines *l, const char *line) {
  if (l->rank == 0) {
    Text text = {0};
    if (*l->bar) text_printf(&text, CLEAR);
    paint(&text, l, line);
    text_printf(&text, "%s", l->bar);
    put(l->out, &text);
    text_close(&text);
    l->since_header += l->since_header >= 0;
  }
  keep(l, line);
}

void lines_emit_warn(Lines *l, const char *line) {
  if (l->rank == 0) {
    char bar[sizeof l->bar];
    strcpy(bar, l->bar);
    lines_bar(l, "");
    Text text = {0};
    if (l->err_terminal)
      paint(&text, l, line);
    else
      text_printf(&text, "%s\n", line);
    put(l->err, &text);
    text_close(&text);
    lines_bar(l, bar);
  }
  keep(l, line);
}

/* Never wider than the terminal: a wrapped line could not be taken back. */
void lines_bar(Lines *l, const char *bar) {
  if (!l->out_terminal || l->rank || (!*bar && !*l->bar)) return;
  struct winsize size;
  size_t width = !ioctl(l->out, TIOCGWINSZ, &size) && size.ws_col > 1 ? size.ws_col - 1u : 79;
  if (width >= sizeof l->bar) width = sizeof l->bar - 1;
  snprintf(l->bar, width + 1, "%s", bar);
  Text text = {0};
  text_printf(&text, CLEAR "%s", l->bar);
  put(l->out, &text);
  text_close(&text);
}

/* Where a process's output goes ("" when that is not told), and its parent (0). */
static int output_of(int pid, int fd, char link[256]) {
  char path[64];
  ProcessStat stat;
  snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
  ssize_t n = readlink(path, link, 255);
  link[n > 0 ? n : 0] = 0;
  return process_stat(pid, &stat) ? stat.parent : 0;
}

/* mpirun gives its ranks a terminal of its own making, wherever its own output goes: then the first ancestor with another
 * output is mpirun, and its output counts. */
static bool launcher_has_terminal(int fd) {
  char mine[256], theirs[256];
  if (!getenv("OMPI_COMM_WORLD_RANK")) return true;
  int parent = output_of(getpid(), fd, mine);
  do {
    parent = output_of(parent, fd, theirs);
  } while (parent > 1 && !strcmp(mine, theirs));
  return !strncmp(theirs, "/dev/pts/", 9) || !strncmp(theirs, "/dev/tty", 8);
}

static bool is_terminal(int fd) {
  const char *term = getenv("TERM");
  return isatty(fd) && !(term && !strcmp(term, "dumb")) && launcher_has_terminal(fd);
}

Lines *lines_open_to(int rank, int out, int err, double (*clock)(void)) {
  const char *no_colour = getenv("NO_COLOR");
  Lines *l = xmalloc(sizeof *l);
  *l = (Lines){.rank = rank,
               .out = out,
               .err = err,
               .out_terminal = is_terminal(out),
               .err_terminal = is_terminal(err),
               .clock = clock,
               .log = append_open(NULL),
               .doing = "",
               .since_header = -1};
  l->colour = l->out_terminal && !(no_colour && *no_colour);
  CHECK(!pthread_mutex_init(&l->lock, NULL));
  pthread_condattr_t monotonic;
  CHECK(!pthread_condattr_init(&monotonic) && !pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC));
  CHECK(!pthread_cond_init(&l->stop, &monotonic));
  pthread_condattr_destroy(&monotonic);
  text_add(&l->banner, "", 0);
  return l;
}

Lines *lines_open(int rank) { return lines_open_to(rank, STDOUT_FILENO, STDERR_FILENO, clock_seconds); }

void lines_log(Lines *l, const char *path) {
  pthread_mutex_lock(&l->lock);
  append_set_path(l->log, path);
  pthread_mutex_unlock(&l->lock);
}

void lines_close(Lines *l) {
  if (!l) return;
  lines_run_end(l);
  Why why;
  if (!append_close(l->log, &why)) {
    Text text = {0};
    text_printf(&text, "warn   %s\n", why.text);
    put(l->err, &text);
    text_close(&text);
  }
  text_close(&l->banner);
  pthread_cond_destroy(&l->stop);
  pthread_mutex_destroy(&l->lock);
  free(l);
}

const char *lines_banner_text(Lines *l) { return l->banner.at; }

/* prefix, then the caller's text. */
static void say(Lines *l, void (*emit)(Lines *, const char *), const char *prefix, const char *format, va_list args) {
  char text[4096];
  int n = snprintf(text, sizeof text, "%s", prefix);
  vsnprintf(text + n, sizeof text - (size_t)n, format, args);
  pthread_mutex_lock(&l->lock);
  emit(l, text);
  pthread_mutex_unlock(&l->lock);
}

#define SAY(emit, ...)                                                                                                             \
  do {                                                                                                                             \
    char prefix[64];                                                                                                               \
    snprintf(prefix, sizeof prefix, __VA_ARGS__);                                                                                  \
    va_list args;                                                                                                                  \
    va_start(args, format);                                                                                                        \
    say(l, emit, prefix, format, args);                                                                                            \
    va_end(args);                                                                                                                  \
  } while (0)

void lines_banner(Lines *l, const char *label, const char *format, ...) { SAY(lines_emit, "%-8s ", label); }
void lines_end(Lines *l, const char *label, const char *format, ...) { SAY(lines_emit, "%-6s ", label); }
void lines_note(Lines *l, const char *format, ...) { SAY(lines_emit, "note  "); }

void lines_warn(Lines *l, int64_t step, const char *format, ...) {
  if (step)
    SAY(lines_emit_warn, "%-4s %7lld  ", "warn", (long long)step);
  else
    SAY(lines_emit_warn, "%-6s ", "warn");
}

static void say_progress(Lines *l, const char *format, ...) LINES_FORMAT(2);
static void say_progress(Lines *l, const char *format, ...) {
  if (l->rank == 0) SAY(lines_emit, "%s", "");
}

void lines_eval(Lines *l, const EvalEvent *e) {
  char loss[HUMAN_TEXT], bits[HUMAN_TEXT], tokens[HUMAN_TEXT], seconds[HUMAN_TEXT];
  bool known = e->bits_per_byte > 0;
  say_progress(l, "%-4s %7lld  %s %s nats,%s%s%s %s tokens, %s s", "eval", (long long)e->step, e->name,
               human_fixed(e->loss, 9, 4, loss), known ? " " : "", known ? human_fixed(e->bits_per_byte, 9, 3, bits) : "",
               known ? " bits/byte," : "", human_count((double)e->tokens, tokens), human_fixed(e->seconds, 9, 1, seconds));
}

void lines_save(Lines *l, const SaveEvent *e) {
  char bytes[HUMAN_TEXT], rate[HUMAN_TEXT], seconds[HUMAN_TEXT], stalled[HUMAN_TEXT];
  human_bytes(e->seconds > 0 ? e->bytes / e->seconds : -1, rate);
  say_progress(l, "%-4s %7lld  %s in %s s, %s/s, stalled %s s", "ckpt", (long long)e->step, human_bytes(e->bytes, bytes),
               human_fixed(e->seconds, 9, e->seconds < 0.95 ? 2 : 1, seconds), rate, human_fixed(e->stalled, 9, 2, stalled));
}
