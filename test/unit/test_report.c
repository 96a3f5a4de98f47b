/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers for people, the arithmetic of speed, and lines. */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>

#include "src/base/arena.h"
#include "src/base/text.h"
#include "src/report/flops.h"
#include "src/report/human.h"
#include "src/report/lines.h"
#include "test/check.h"

/* Numbers */

TEST(numbers_have_three_digits_and_a_unit) {
  static const struct {
    const char *(*print)(double, char *);
    double value;
    const char *text;
  } rows[] = {{human_count, 50331648000, "50.3B"},
              {human_count, 883900, "884k"},
              {human_count, 4194304, "4.19M"},
              {human_count, 2e12, "2.00T"},
              {human_count, 0, "0"},
              {human_count, 7, "7"},
              {human_count, 999, "999"},
              {human_count, 999.4, "999"},
              {human_count, 999.5, "1.00k"},
              {human_count, 9.994, "9.99"},
              {human_count, 9.996, "10.0"},
              {human_count, 99.96, "100"},
              {human_count, 21000, "21.0k"},
              {human_count, 999499, "999k"},
              {human_count, 999500, "1.00M"},
              {human_count, 1.5e15, "1500T"},
              {human_count, NAN, "-"},
              {human_count, INFINITY, "-"},
              {human_count, -1, "-"},
              {human_rate, 592e12, "592T"},
              {human_rate, 42.9e9, "42.9G"},
              {human_rate, 1.2e15, "1.20P"},
              {human_bytes, 80.9e9, "80.9 GB"},
              {human_bytes, 512, "512 B"},
              {human_duration, 25 * 86400 + 13 * 3600 + 59 * 60, "25d 13h"},
              {human_duration, 3600 + 19 * 60 + 10, "1h 19m"},
              {human_duration, 245, "4m 5s"},
              {human_duration, 59.6, "1m 0s"},
              {human_duration, 0, "0s"},
              {human_duration, 86400.0 * 1234, "1234d"},
              {human_duration, NAN, "-"},
              {human_duration, 1e300, "-"}};
  char out[HUMAN_TEXT];
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) EXPECT_TEXT(rows[i].print(rows[i].value, out), rows[i].text);
}

TEST(a_number_gives_up_decimals_before_columns) {
  char out[HUMAN_TEXT];
  EXPECT_TEXT(human_fixed(2.14371, 7, 4, out), "2.1437");
  EXPECT_TEXT(human_fixed(123.4567, 6, 3, out), "123.46");
  EXPECT_TEXT(human_fixed(-123.4567, 6, 3, out), "-123.5");
  EXPECT_TEXT(human_fixed(1234567, 6, 3, out), "1e+06");
  EXPECT_TEXT(human_fixed(NAN, 6, 3, out), "nan");
  EXPECT_TEXT(human_fixed(-NAN, 6, 3, out), "nan");
  EXPECT_TEXT(human_fixed(INFINITY, 6, 3, out), "inf");
  for (double value = 1e-3; value < 1e30; value *= 7) EXPECT(strlen(human_fixed(value, 7, 4, out)) <= 7);
}

/* Llama-2-7B, sequences of 4096: by hand from the shapes of its matrices. */
TEST(flops_are_six_a_parameter_and_the_attention) {
  FlopsShape llama = {
      .parameters = 6738415616, .embedding_parameters = 131072000, .layers = 32, .heads = 32, .head_dim = 128, .seq_len = 4096};
  Flops f = flops_per_token(&llama);
  double products = 6.0 * (32 * (4.0 * 4096 * 4096 + 3.0 * 4096 * 11008 + 2 * 4096) + 4096 + 32000.0 * 4096);
  EXPECT(f.causal == products + 6.0 * 32 * 4096 * 4096);
  EXPECT(f.full == products + 12.0 * 32 * 4096 * 4096);
  llama.spared_products = 1e9;
  llama.spared_attentions = 32; /* no gradient goes through any of them */
  EXPECT(flops_per_token(&llama).causal == products - 1e9 + 2.0 * 32 * 4096 * 4096);
  FlopsShape windowed = {.layers = 4, .heads = 1, .head_dim = 1, .seq_len = 100, .window = 100, .window_layers = 4};
  EXPECT(flops_per_token(&windowed).causal == 6.0 * 4 * 100);
  windowed.window = 20, windowed.window_layers = 2; /* 100 or 36 */
  EXPECT_NEAR(flops_per_token(&windowed).causal, 6.0 * 2 * (100 + 36), 1e-12);
  Speed speed = {.per_token = f, .devices = 64, .peak = 989e12};
  EXPECT_NEAR(speed_mfu(&speed, f.causal, 884000), 0.599, 2e-3);
  speed.peak = 0;
  EXPECT(isnan(speed_mfu(&speed, f.causal, 884000)));
  EXPECT(isnan(speed_tokens(100, 0)));
}

/* Lines */

static _Atomic double now;
static double fake_clock(void) { return now; }

typedef struct Said {
  char folder[256];
  int out, err;
  Lines *lines;
} Said;

static int file_for(const Said *s, const char *name) {
  char path[300];
  snprintf(path, sizeof path, "%s/%s", s->folder, name);
  int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
  EXPECT(fd >= 0);
  return fd;
}

static char *text_of(const Said *s, const char *name) {
  char path[300];
  snprintf(path, sizeof path, "%s/%s", s->folder, name);
  size_t n;
  char *text = file_read(path, &n);
  EXPECT(text);
  return text;
}

static Said speak(int rank) {
  Said s;
  snprintf(s.folder, sizeof s.folder, "%s", check_folder());
  s.out = file_for(&s, "out");
  s.err = file_for(&s, "err");
  now = 1000;
  s.lines = lines_open_to(rank, s.out, s.err, fake_clock);
  char log[300];
  snprintf(log, sizeof log, "%s/log.txt", s.folder);
  lines_log(s.lines, log);
  return s;
}

static void hush(Said *s) {
  lines_close(s->lines);
  close(s->out);
  close(s->err);
}

static int count(const char *text, const char *what) {
  int n = 0;
  for (const char *p = text; (p = strstr(p, what)); p += strlen(what)) n++;
  return n;
}

static StepEvent step_event(int64_t step) {
  return (StepEvent){.step = step,
                     .tokens = step * 4194304,
                     .step_tokens = 4194304,
                     .loss = 2.14371,
                     .grad_norm = 0.312,
                     .lr = 2.997e-4,
                     .seconds = 4.745,
                     .memory_gib = 77.4};
}

static const RunShape big = {.total_steps = 476837,
                             .last_step = 476837,
                             .save_every = 1000,
                             .speed = {.per_token = {42.9e9, 45e9}, .devices = 64, .peak = 989e12}};

TEST(a_step_line_has_its_86_columns) {
  Said s = speak(0);
  lines_run(s.lines, &big);
  StepEvent e = step_event(12000);
  lines_step(s.lines, &e);
  now = now + 11;
  e = step_event(12001);
  lines_step(s.lines, &e);
  hush(&s);
  char *out = text_of(&s, "out");
  EXPECT_TEXT(out, "        step tokens    loss  gnorm        lr s/step  tok/s FLOP/s  MFU%   GiB     left\n"
                   "step   12000  50.3B  2.1437  0.312 2.997e-04  4.745   884k   593T  59.9  77.4        -\n"
                   "step   12001  50.3B  2.1437  0.312 2.997e-04  4.745   884k   593T  59.9  77.4   59d 4h\n");
  free(out);
}

TEST(what_is_unknown_is_a_dash_and_no_value_moves_the_columns) {
  static const double odd[] = {0, NAN, INFINITY, -INFINITY, 1e-9, 123456.789, 1e12};
  for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
    Said s = speak(0);
    RunShape shape = {.total_steps = 10, .last_step = 10, .every = 1};
    lines_run(s.lines, &shape);
    lines_step(s.lines, &(StepEvent){.step = 1,
                                     .tokens = 64,
                                     .step_tokens = 64,
                                     .loss = odd[i],
                                     .grad_norm = odd[i],
                                     .lr = 1e-3,
                                     .seconds = odd[i],
                                     .memory_gib = odd[i]});
    hush(&s);
    char *out = text_of(&s, "out"), *line = strchr(out, '\n') + 1;
    EXPECT(strcspn(out, "\n") == 86);
    if (odd[i] < 1e10) EXPECT(strcspn(line, "\n") == 86);
    EXPECT_TEXT(strrchr(line, ' '), " -\n"); /* time left after one step */
    EXPECT(!!strstr(line, "nan") == isnan(odd[i]));
    free(out);
  }
}

TEST(lines_begin_with_their_type_and_warnings_go_to_stderr) {
  Said s = speak(0);
  lines_banner(s.lines, "mpi", "%d ranks", 64);
  lines_banner(s.lines, "hpctrain", "0.4");
  lines_note(s.lines, "no %s", "x");
  lines_warn(s.lines, 13010, "step skipped");
  lines_warn(s.lines, 0, "step-00013000 damaged");
  lines_eval(
      s.lines,
      &(EvalEvent){.step = 13000, .name = "web", .loss = 2.1312, .bits_per_byte = 0.787, .tokens = 10000000, .seconds = 3.1});
  lines_eval(s.lines,
             &(EvalEvent){.step = 13000, .name = "val", .loss = 2.1312, .bits_per_byte = NAN, .tokens = 512, .seconds = 3.1});
  lines_save(s.lines, &(SaveEvent){.step = 13000, .bytes = 80.9e9, .seconds = 14.2, .stalled = 0.03});
  lines_end(s.lines, "done", "2 steps");
  hush(&s);
  char *out = text_of(&s, "out"), *err = text_of(&s, "err"), *log = text_of(&s, "log.txt");
  EXPECT_TEXT(out, "mpi      64 ranks\n"
                   "hpctrain 0.4\n"
                   "note  no x\n"
                   "eval   13000  web 2.1312 nats, 0.787 bits/byte, 10.0M tokens, 3.1 s\n"
                   "eval   13000  val 2.1312 nats, 512 tokens, 3.1 s\n"
                   "ckpt   13000  80.9 GB in 14.2 s, 5.70 GB/s, stalled 0.03 s\n"
                   "done   2 steps\n");
  EXPECT_TEXT(err, "warn   13010  step skipped\nwarn   step-00013000 damaged\n");
  EXPECT(strlen(log) == strlen(out) + strlen(err));
  EXPECT(strstr(log, "note  no x\nwarn   13010  step skipped\n"));
  free(out);
  free(err);
  free(log);
}

TEST(a_log_has_a_line_in_ten_seconds_the_first_and_the_last) {
  Said s = speak(0);
  RunShape shape = {.total_steps = 1000, .last_step = 95};
  lines_run(s.lines, &shape);
  for (int i = 1; i <= 95; i++) {
    StepEvent e = step_event(i);
    e.loss = i;
    lines_step(s.lines, &e);
    now = now + 1;
  }
  hush(&s);
  char *out = text_of(&s, "out");
  EXPECT(count(out, "\nstep ") == 11); /* 1 11 21 … 91 95 */
  EXPECT(strstr(out, "\nstep       1 "));
  EXPECT(strstr(out, "\nstep      11 ") && strstr(out, "\nstep      91 "));
  EXPECT(strstr(out, "\nstep      95 "));
  EXPECT(strstr(out, "46.1M  6.5000 ")); /* the mean of 2 … 11 */
  EXPECT(!strchr(out, '\r') && !strchr(out, '\033'));
  free(out);
}

TEST(log_every_is_obeyed_and_an_early_end_is_told) {
  Said s = speak(0);
  RunShape shape = {.total_steps = 1000, .last_step = 1000, .every = 20};
  lines_run(s.lines, &shape);
  for (int i = 11; i <= 105; i++) {
    StepEvent e = step_event(i);
    lines_step(s.lines, &e);
  }
  lines_run_end(s.lines);
  lines_run_end(s.lines);
  hush(&s);
  char *out = text_of(&s, "out");
  EXPECT(count(out, "\nstep ") == 7); /* 11 20 40 60 80 100 105 */
  EXPECT(strstr(out, "\nstep     105 "));
  free(out);
}

TEST(a_header_stands_every_forty_lines) {
  Said s = speak(0);
  RunShape shape = {.total_steps = 1000, .last_step = 1000, .every = 1};
  lines_run(s.lines, &shape);
  for (int i = 1; i <= 100; i++) {
    StepEvent e = step_event(i);
    lines_step(s.lines, &e);
  }
  hush(&s);
  char *out = text_of(&s, "out");
  EXPECT(count(out, "s/step") == 3);
  EXPECT(count(out, "\n") == 103);
  free(out);
}

TEST(time_left_leaves_the_first_step_out) {
  Said s = speak(0);
  RunShape shape = {.total_steps = 100, .last_step = 100, .every = 1};
  lines_run(s.lines, &shape);
  now = now + 500; /* the first step */
  for (int i = 1; i <= 11; i++) {
    StepEvent e = step_event(i);
    lines_step(s.lines, &e);
    now = now + 2;
  }
  hush(&s);
  char *out = text_of(&s, "out");
  EXPECT_TEXT(out + strlen(out) - 8, " 2m 58s\n"); /* 89 steps of 2 s */
  free(out);
}

TEST(skipped_steps_leave_the_mean_alone) {
  Said s = speak(0);
  RunShape shape = {.total_steps = 100, .last_step = 100, .every = 4};
  lines_run(s.lines, &shape);
  for (int i = 1; i <= 4; i++) {
    StepEvent e = step_event(i);
    e.loss = i == 3 ? (double)NAN : i;
    lines_step(s.lines, &e);
  }
  hush(&s);
  char *out = text_of(&s, "out");
  EXPECT(strstr(out, "  3.0000 ")); /* of 2 and 4 */
  free(out);
}

TEST(silence_is_broken_with_what_goes_on) {
  Said s = speak(0);
  lines_run(s.lines, &big);
  StepEvent e = step_event(1);
  lines_step(s.lines, &e);
  lines_doing(s.lines, "writing checkpoint");
  now = now + 59;
  lines_tick(s.lines);
  now = now + 1;
  lines_tick(s.lines);
  now = now + 59;
  lines_tick(s.lines);
  now = now + 2;
  lines_tick(s.lines);
  lines_doing(s.lines, "");
  e = step_event(2);
  e.seconds = 100; /* slow by nature: no silence before 200 s */
  lines_step(s.lines, &e);
  now = now + 199;
  lines_tick(s.lines);
  now = now + 1;
  lines_tick(s.lines);
  hush(&s);
  char *out = text_of(&s, "out");
  EXPECT(count(out, "note  no step") == 3);
  EXPECT(strstr(out, "note  no step for 60 s: writing checkpoint\nnote  no step for 121 s: writing checkpoint\n"));
  EXPECT(strstr(out, "note  no step for 200 s\n"));
  free(out);
}

TEST(only_rank_0_speaks_and_others_have_their_own_log) {
  Said s = speak(3);
  lines_run(s.lines, &big);
  StepEvent e = step_event(1);
  lines_step(s.lines, &e);
  lines_save(s.lines, &(SaveEvent){.step = 1, .bytes = 1});
  char log[300];
  snprintf(log, sizeof log, "%s/log.txt", s.folder);
  EXPECT(access(log, F_OK)); /* no file without a line */
  lines_warn(s.lines, 0, "slow disk");
  hush(&s);
  char *out = text_of(&s, "out"), *err = text_of(&s, "err"), *text = text_of(&s, "log.txt");
  EXPECT_TEXT(out, "");
  EXPECT_TEXT(err, "");
  EXPECT_TEXT(text, "warn   slow disk\n");
  free(out);
  free(err);
  free(text);
}

TEST(the_banner_is_what_was_said_before_the_steps) {
  Said s = speak(0);
  lines_banner(s.lines, "mpi", "1 rank");
  lines_warn(s.lines, 0, "w");
  lines_run(s.lines, &big);
  lines_note(s.lines, "later");
  lines_run_end(s.lines);
  lines_end(s.lines, "done", "x");
  EXPECT_TEXT(lines_banner_text(s.lines), "mpi      1 rank\nwarn   w\n");
  hush(&s);
}

/* What a terminal of this width would be sent. */
static char *terminal(const char *no_colour, const char *term, unsigned short width) {
  if (no_colour)
    setenv("NO_COLOR", no_colour, 1);
  else
    unsetenv("NO_COLOR");
  setenv("TERM", term, 1);
  int master = posix_openpt(O_RDWR | O_NOCTTY);
  EXPECT(master >= 0 && !grantpt(master) && !unlockpt(master));
  int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
  EXPECT(slave >= 0);
  struct termios raw;
  EXPECT(!tcgetattr(slave, &raw));
  cfmakeraw(&raw);
  EXPECT(!tcsetattr(slave, TCSANOW, &raw));
  struct winsize size = {.ws_row = 24, .ws_col = width};
  EXPECT(!ioctl(slave, TIOCSWINSZ, &size));
  now = 1000;
  Lines *l = lines_open_to(0, slave, slave, fake_clock);
  RunShape shape = {.total_steps = 100, .last_step = 100, .save_every = 30};
  lines_run(l, &shape);
  for (int i = 1; i <= 50; i++) {
    StepEvent e = step_event(i);
    lines_step(l, &e);
    now = now + 0.5;
  }
  lines_warn(l, 50, "hot");
  lines_close(l);
  char *text = xmalloc(65536);
  size_t n = 0;
  close(slave);
  for (ssize_t got; n < 65535 && (got = read(master, text + n, 65535 - n)) > 0;) n += (size_t)got; /* EIO at its end */
  text[n] = 0;
  close(master);
  return text;
}

TEST(a_terminal_has_colour_and_a_bar) {
  char *text = terminal(NULL, "xterm", 100);
  EXPECT(strstr(text, "\r\033[K[############............] 50/100  save in 10 steps  left 25s"));
  EXPECT(strstr(text, "\033[33mwarn\033[0m      50  hot\n"));
  EXPECT(count(text, "step     ") >= 25); /* a line a second */
  EXPECT(count(text, "step     ") <= 27);
  free(text);
}

TEST(no_color_takes_colour_and_leaves_the_bar) {
  char *text = terminal("1", "xterm", 100);
  EXPECT(strstr(text, "50/100") && strstr(text, "warn      50  hot\n"));
  EXPECT(count(text, "\033") == count(text, "\033[K"));
  free(text);
  text = terminal("", "xterm", 100); /* empty is unset */
  EXPECT(strstr(text, "\033[33mwarn"));
  free(text);
}

TEST(a_dumb_terminal_gets_text_alone) {
  char *text = terminal(NULL, "dumb", 100);
  EXPECT(!strchr(text, '\033') && !strchr(text, '\r'));
  free(text);
}

TEST(the_bar_fits_a_narrow_terminal) {
  char *text = terminal("1", "xterm", 30);
  EXPECT(strstr(text, "\r\033[K[############............] 50"));
  EXPECT(!strstr(text, "50/100"));
  free(text);
}
