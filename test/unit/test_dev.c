/* SPDX-License-Identifier: Apache-2.0 */
/* The cpu device: memory, compiled code and its cache, with a compiler in PATH that counts how often it compiles. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/arena.h"
#include "src/base/text.h"
#include "src/dev/back.h"
#include "src/dev/dev.h"
#include "test/check.h"

static const char add_text[] = "int add(int a, int b) { return a + b; }\n";
static const char mul_text[] = "int mul(int a, int b) { return a * b; }\n";
typedef int Binary(int a, int b);

static const char *path_in(const char *name) {
  static char paths[16][4096];
  static int next;
  char *path = paths[next++ % 16];
  snprintf(path, sizeof *paths, "%s/%s", check_folder(), name);
  return path;
}

static Dev *dev_make(const char *compiler, const char *cache, int threads) {
  return dev_open(&(DevOptions){.kind = "cpu", .compiler = compiler, .cache = cache, .threads = threads});
}

/* A compiler that calls cc and leaves a line in folder/calls each time it compiles or links. */
static const char *compiler_counting(void) {
  const char *path = path_in("counting-cc");
  FILE *f = fopen(path, "w");
  EXPECT(f);
  fprintf(f, "#!/bin/sh\ncase $1 in --version) ;; *) echo x >> %s/calls;; esac\nexec cc \"$@\"\n", check_folder());
  EXPECT(fclose(f) == 0 && chmod(path, 0755) == 0);
  return path;
}

static int calls_count(void) {
  size_t n;
  char *calls = file_read(path_in("calls"), &n);
  free(calls);
  return calls ? (int)n / 2 : 0;
}

static Binary *binary_find(DevModule *module, const char *name) {
  union {
    void *at;
    Binary *code;
  } symbol = {.at = dev_symbol(module, name)};
  return symbol.code;
}

static void build_and_call(Dev *dev, bool *hit) {
  const char *texts[] = {add_text, mul_text};
  void *image;
  size_t nbytes;
  Why why = {""};
  bool built = dev_try_build(dev, texts, 2, &image, &nbytes, hit, &why);
  EXPECT_TEXT(why.text, "");
  EXPECT(built);
  DevModule *module = dev_load(dev, image, nbytes);
  free(image);
  EXPECT(binary_find(module, "add")(20, 22) == 42);
  EXPECT(binary_find(module, "mul")(6, 7) == 42);
  dev_unload(module);
}

static int entries_find(char name[4096]) {
  char command[8192];
  snprintf(command, sizeof command, "ls %s/cache", check_folder());
  FILE *f = popen(command, "r");
  char line[256];
  int n = 0;
  for (; fgets(line, sizeof line, f); n++) snprintf(name, 4096, "%s/cache/%.*s", check_folder(), (int)strcspn(line, "\n"), line);
  pclose(f);
  return n;
}

TEST(memory_is_zeroed_aligned_and_counted) {
  Dev *dev = dev_make("none", NULL, 1);
  size_t sizes[] = {0, 1, 4097, 5 << 20};
  void *at[4];
  size_t total = 0;
  for (int i = 0; i < 4; i++) {
    at[i] = dev_alloc(dev, sizes[i], "test");
    EXPECT((uintptr_t)at[i] % 64 == 0);
    for (size_t k = 0; k < sizes[i]; k++) EXPECT(((char *)at[i])[k] == 0);
    memset(at[i], 1, sizes[i]);
    total += sizes[i];
  }
  EXPECT(dev_allocated(dev) == total);
  for (int i = 0; i < 4; i++) dev_free(dev, at[i], sizes[i]);
  EXPECT(dev_allocated(dev) == 0 && dev_allocated_peak(dev) == total);
  dev_close(dev);
}

TEST(memory_that_is_not_there_names_sizes_and_remedy) {
  Dev *dev = dev_make("none", NULL, 1);
  EXPECT_FAIL(FAIL_MACHINE, "no memory for the arena: 1024.000 GiB wanted", { dev_alloc(dev, (size_t)1 << 40, "the arena"); });
  EXPECT_FAIL(FAIL_MACHINE, "Cannot allocate memory", {
    setrlimit(RLIMIT_AS, &(struct rlimit){(size_t)64 << 20, (size_t)64 << 20});
    dev_alloc(dev, (size_t)128 << 20, "the arena");
  });
  EXPECT_FAIL(FAIL_MACHINE, "\nhelp: memory.recompute: block, ", { dev_alloc(dev, (size_t)1 << 40, "the arena"); });
  dev_close(dev);
}

static void hold(void *self, Text *out) { text_printf(out, "   held by %s\n", (const char *)self); }

TEST(who_holds_memory_is_asked_when_there_is_none) {
  Dev *dev = dev_make("none", NULL, 1);
  char name[] = "somebody";
  dev_holders(dev, hold, name);
  EXPECT_FAIL(FAIL_MACHINE, "\n   held by somebody\nhelp: ", { dev_alloc(dev, (size_t)1 << 40, "the arena"); });
  EXPECT_FAIL(FAIL_MACHINE, "\n   held by somebody\nhelp: ", { dev_memory_failed("a library", "its words"); });
  EXPECT_FAIL(FAIL_MACHINE, "no memory for a library, ", { dev_memory_failed("a library", "its words"); });
  EXPECT_FAIL(FAIL_MACHINE, "\n   its words\n", { dev_memory_failed("a library", "its words"); });
  EXPECT_FAIL(FAIL_MACHINE, "no pinned memory of the host for copies: 2.000 GiB wanted, ",
              { dev_host_memory_failed((size_t)2 << 30, "copies", "its words"); });
  EXPECT_FAIL(FAIL_MACHINE, "\n   its words\n   held by somebody\nhelp: ", { dev_host_memory_failed(0, "copies", "its words"); });
  dev_close(dev);
  EXPECT_FAIL(FAIL_MACHINE, "no memory for a library\n   its words\nhelp: ", { dev_memory_failed("a library", "its words"); });
}

TEST(what_a_gpu_holds_beside_is_what_nobody_else_does) {
  DevMemory gpu = {.total = 100, .available = 30, .others = 20}, host = {.total = 100, .available = 30, .shared = true};
  EXPECT(dev_memory_beside(&gpu, 40) == 10 && dev_memory_beside(&gpu, 60) == 0 && dev_memory_beside(&host, 40) == 0);
}

TEST(texts_become_code) {
  Dev *dev = dev_make("cc", path_in("cache"), 2);
  bool hit = true;
  build_and_call(dev, &hit);
  EXPECT(!hit);
  EXPECT(dev_cache_note(dev) == NULL);
  dev_close(dev);
}

TEST(two_modules_are_two) {
  Dev *dev = dev_make("cc", path_in("cache"), 1);
  DevModule *second = NULL;
  for (int i = 1; i < 4; i++) {
    char text[64];
    snprintf(text, sizeof text, "int f(int a, int b) { return a + %d * b; }\n", i);
    void *image;
    size_t nbytes;
    EXPECT(dev_try_build(dev, (const char *[]){text}, 1, &image, &nbytes, NULL, NULL));
    DevModule *module = dev_load(dev, image, nbytes);
    free(image);
    EXPECT(binary_find(module, "f")(0, 1) == i);
    if (i == 2)
      second = module;
    else
      dev_unload(module);
  }
  EXPECT(binary_find(second, "f")(0, 1) == 2);
  dev_unload(second);
  dev_close(dev);
}

TEST(what_was_built_is_not_compiled_again) {
  const char *compiler = compiler_counting();
  for (int i = 0; i < 3; i++) {
    Dev *dev = dev_make(compiler, path_in("cache"), 2);
    bool hit;
    build_and_call(dev, &hit);
    EXPECT(hit == (i > 0));
    EXPECT(calls_count() == 3);
    dev_close(dev);
  }
}

TEST(another_compiler_compiles_again) {
  const char *compiler = compiler_counting();
  bool hit;
  for (int i = 0; i < 2; i++) {
    Dev *dev = dev_make(compiler, path_in("cache"), 1);
    build_and_call(dev, &hit);
    dev_close(dev);
    FILE *f = fopen(compiler, "a");
    EXPECT(f && fputs("# newer\n", f) >= 0 && fclose(f) == 0);
  }
  EXPECT(!hit && calls_count() == 6);
}

TEST(a_damaged_entry_is_built_again) {
  const char *compiler = compiler_counting();
  Dev *dev = dev_make(compiler, path_in("cache"), 1);
  bool hit;
  char name[4096];
  build_and_call(dev, &hit);
  EXPECT(entries_find(name) == 1);
  struct stat st;
  EXPECT(stat(name, &st) == 0);
  for (int i = 0; i < 3; i++) {
    if (i < 2)
      EXPECT(truncate(name, i ? 0 : st.st_size / 2) == 0);
    else {
      int fd = open(name, O_RDWR);
      EXPECT(pwrite(fd, "x", 1, 100) == 1 && close(fd) == 0);
    }
    build_and_call(dev, &hit);
    EXPECT(!hit && calls_count() == 3 * (i + 2));
    build_and_call(dev, &hit);
    EXPECT(hit);
  }
  dev_close(dev);
}

TEST(an_entry_others_can_write_is_not_loaded) {
  Dev *dev = dev_make("cc", path_in("cache"), 1);
  bool hit;
  char name[4096];
  build_and_call(dev, &hit);
  EXPECT(entries_find(name) == 1 && chmod(name, 0666) == 0);
  build_and_call(dev, &hit);
  EXPECT(!hit);
  dev_close(dev);
}

TEST(a_damaged_image_is_not_run) {
  Dev *dev = dev_make("cc", path_in("cache"), 1);
  void *image;
  size_t nbytes;
  EXPECT(dev_try_build(dev, (const char *[]){add_text}, 1, &image, &nbytes, NULL, NULL));
  EXPECT_FAIL(FAIL_MACHINE, "damaged", { dev_load(dev, image, nbytes - 1); });
  EXPECT_FAIL(FAIL_MACHINE, "damaged", { dev_load(dev, image, 0); });
  ((char *)image)[1000] ^= 1;
  EXPECT_FAIL(FAIL_MACHINE, "damaged", { dev_load(dev, image, nbytes); });
  free(image);
  dev_close(dev);
}

TEST(a_folder_in_the_hands_of_others_is_refused) {
  const char *cache = path_in("cache");
  EXPECT(mkdir(cache, 0700) == 0);
  EXPECT(chmod(cache, 0777) == 0);
  EXPECT_FAIL(FAIL_MACHINE, "others may write to it (mode 0777)", { dev_make("cc", cache, 1); });
  EXPECT(chmod(cache, 0770) == 0);
  EXPECT_FAIL(FAIL_MACHINE, "help: make it a folder of your own", { dev_make("cc", cache, 1); });
  EXPECT(chmod(cache, 0700) == 0);
  if (geteuid() == 0) {
    EXPECT(chown(cache, 12345, 12345) == 0);
    EXPECT_FAIL(FAIL_MACHINE, "belongs to user 12345, you are user 0", { dev_make("cc", cache, 1); });
    EXPECT(chown(cache, 0, 0) == 0);
  }
  EXPECT(rmdir(cache) == 0);
  FILE *f = fopen(cache, "w");
  EXPECT(f && fclose(f) == 0);
  EXPECT_FAIL(FAIL_MACHINE, "is not a folder", { dev_make("cc", cache, 1); });
}

TEST(a_cache_that_cannot_be_had_is_a_note) {
  Dev *dev = dev_make("cc", "/proc/none/cache", 1);
  bool hit;
  build_and_call(dev, &hit);
  EXPECT(!hit && dev_cache_note(dev) && strstr(dev_cache_note(dev), "/proc/none/cache: "));
  dev_close(dev);
}

TEST(without_home_the_run_folder_has_the_cache) {
  EXPECT(unsetenv("HOME") == 0 && unsetenv("XDG_CACHE_HOME") == 0);
  Dev *dev = dev_open(&(DevOptions){.kind = "cpu", .compiler = "cc", .fallback = check_folder(), .threads = 1});
  bool hit;
  char name[4096];
  build_and_call(dev, &hit);
  EXPECT(entries_find(name) == 1 && dev_cache_note(dev) == NULL);
  dev_close(dev);
}

TEST(home_has_the_cache_for_its_owner_alone) {
  EXPECT(setenv("HOME", check_folder(), 1) == 0 && unsetenv("XDG_CACHE_HOME") == 0);
  dev_close(dev_open(&(DevOptions){.kind = "cpu", .threads = 1}));
  struct stat st;
  EXPECT(stat(path_in(".cache/hpctrain"), &st) == 0 && (st.st_mode & 0777) == 0700);
}

TEST(no_compiler_says_what_to_do) {
  static const struct {
    const char *compiler, *words;
  } cases[] = {{"no-such-cc", "no C compiler: 'no-such-cc' is not in PATH\nhelp: install one (apt-get install gcc)"},
               {"/no/such-cc", "'/no/such-cc' is not an executable file"},
               {"none", "cpu.compiler is none"}};
  for (int i = 0; i < 3; i++) {
    Dev *dev = dev_make(cases[i].compiler, path_in("cache"), 1);
    void *image;
    size_t nbytes;
    Why why;
    EXPECT(!dev_try_build(dev, (const char *[]){add_text}, 1, &image, &nbytes, NULL, &why));
    EXPECT(strstr(why.text, cases[i].words));
    dev_close(dev);
  }
}

/* Of the child, which has its parent's memory: what the optimiser makes of it is a part of the test. */
TEST(what_keeps_a_compiler_from_starting_is_told) {
  const char *script = path_in("script");
  FILE *f = fopen(script, "w");
  EXPECT(f && fputs("#!/nonexistent/sh\n", f) >= 0 && fclose(f) == 0 && chmod(script, 0755) == 0);
  const struct {
    const char *program, *folder, *log, *words;
  } cases[] = {{script, check_folder(), "log", "/script: No such file or directory\nhelp: name another with cpu.compiler"},
               {check_folder(), check_folder(), "log", "Permission denied"},
               {"/bin/sh", path_in("none"), "log", "No such file or directory"},
               {"/bin/sh", script, "log", "Not a directory"},
               {"/bin/sh", check_folder(), "none/log", "No such file or directory"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Why why = {""};
    EXPECT(process_start((char *const[]){(char *)cases[i].program, NULL}, cases[i].folder, cases[i].log, &why) == -1);
    EXPECT(strstr(why.text, "cannot start the compiler ") && strstr(why.text, cases[i].words));
  }
  Dev *dev = dev_make(script, path_in("cache"), 1);
  Why why = {""};
  EXPECT(!dev_try_build(dev, (const char *[]){add_text}, 1, &(void *){NULL}, &(size_t){0}, NULL, &why));
  EXPECT(strstr(why.text, cases[0].words));
  dev_close(dev);
}

/* What holds the other end of a pipe lives. */
TEST(a_compiler_ends_with_its_rank) {
  int ends[2], status;
  EXPECT(pipe(ends) == 0);
  pid_t rank = fork();
  EXPECT(rank >= 0);
  if (!rank) {
    process_start((char *const[]){"/bin/sh", "-c", "exec sleep 100", NULL}, check_folder(), "log", NULL);
    raise(SIGKILL);
  }
  EXPECT(close(ends[1]) == 0 && waitpid(rank, &status, 0) == rank && WIFSIGNALED(status));
  EXPECT(poll(&(struct pollfd){.fd = ends[0], .events = POLLIN}, 1, 60 * 1000) == 1);
  EXPECT(close(ends[0]) == 0);
}

TEST(an_error_of_the_compiler_is_told_with_its_line_and_leaves_nothing) {
  EXPECT(mkdir(path_in("tmp"), 0700) == 0 && setenv("TMPDIR", path_in("tmp"), 1) == 0);
  Dev *dev = dev_make("cc", path_in("cache"), 2);
  const char *texts[] = {add_text, "int x;\nint y = nothing;\n", mul_text};
  void *image;
  size_t nbytes;
  Why why;
  EXPECT(!dev_try_build(dev, texts, 3, &image, &nbytes, NULL, &why));
  EXPECT(strstr(why.text, "k1.c:2:9: error:") && strstr(why.text, "nothing"));
  char name[4096];
  EXPECT(entries_find(name) == 0);
  EXPECT(rmdir(path_in("tmp")) == 0);
  unsetenv("TMPDIR");
  dev_close(dev);
}

TEST(two_processes_may_build_the_same_at_once) {
  const char *cache = path_in("cache");
  for (int i = 0; i < 2; i++) {
    pid_t pid = fork();
    EXPECT(pid >= 0);
    if (pid) continue;
    Dev *dev = dev_make("cc", cache, 1);
    bool hit;
    build_and_call(dev, &hit);
    dev_close(dev);
    _exit(0);
  }
  for (int i = 0; i < 2; i++) {
    int status;
    EXPECT(wait(&status) > 0 && status == 0);
  }
  char name[4096];
  EXPECT(entries_find(name) == 1);
}

/* On another node, or in another container, a process of this one's number may be writing the same. */
TEST(what_another_writes_aside_is_left_alone) {
  Dev *dev = dev_make("cc", path_in("cache"), 1);
  bool hit;
  build_and_call(dev, &hit);
  char name[4096], aside[4200], other[8] = "";
  EXPECT(entries_find(name) == 1 && unlink(name) == 0);
  snprintf(aside, sizeof aside, "%s.%d", name, (int)getpid());
  FILE *f = fopen(aside, "w");
  EXPECT(f && fputs("half", f) >= 0 && fclose(f) == 0);
  build_and_call(dev, &hit);
  EXPECT(!hit && dev_cache_note(dev) == NULL && entries_find(name) == 2);
  f = fopen(aside, "r");
  EXPECT(f && fgets(other, sizeof other, f) && fclose(f) == 0);
  EXPECT_TEXT(other, "half");
  build_and_call(dev, &hit);
  EXPECT(hit);
  dev_close(dev);
}

TEST(the_cache_stays_small) {
  const char *cache = path_in("cache");
  EXPECT(mkdir(cache, 0700) == 0);
  char name[4096];
  for (int i = 0; i < 205; i++) {
    snprintf(name, sizeof name, "%s/%064d.so", cache, i);
    FILE *f = fopen(name, "w");
    EXPECT(f && fclose(f) == 0);
  }
  Dev *dev = dev_make("cc", cache, 1);
  bool hit;
  build_and_call(dev, &hit);
  EXPECT(entries_find(name) == 200);
  build_and_call(dev, &hit);
  EXPECT(hit);
  dev_close(dev);
}

TEST(launches_and_copies_follow_one_another_and_events_tell_time) {
  static const char text[] = "void twice(void *const *p, int threads) { int *x = p[0]; *x = 2 * *x + threads; }\n";
  Dev *dev = dev_make("cc", path_in("cache"), 3);
  void *image;
  size_t nbytes;
  EXPECT(dev_try_build(dev, (const char *[]){text}, 1, &image, &nbytes, NULL, NULL));
  DevModule *module = dev_load(dev, image, nbytes);
  free(image);
  int *x = dev_alloc(dev, sizeof *x, "x"), in = 5, out = 0;
  DevEvent *from = dev_event_open(dev), *to = dev_event_open(dev);
  dev_event_record(from);
  dev_copy_in(dev, x, &in, sizeof in);
  dev_launch(dev, dev_symbol(module, "twice"), (void *[]){x}, 1, NULL);
  dev_launch(dev, dev_symbol(module, "twice"), (void *[]){x}, 1, NULL);
  dev_copy_out(dev, &out, x, sizeof out);
  dev_event_record(to);
  dev_sync(dev);
  EXPECT(out == 2 * (2 * 5 + 3) + 3);
  EXPECT(dev_event_seconds(from, to) > 0 && dev_event_seconds(from, from) == 0);
  dev_event_close(from);
  dev_event_close(to);
  dev_free(dev, x, sizeof *x);
  dev_unload(module);
  dev_close(dev);
}

TEST(a_cuda_module_that_is_not_there_says_what_to_do) {
  EXPECT_FAIL(FAIL_MACHINE, "/none/hpctrain_cuda.so: not there\nhelp: where it is not there, build it: configure --with-cuda=DIR",
              { dev_open(&(DevOptions){.kind = "cuda", .threads = 1, .module = "/none/hpctrain_cuda.so"}); });
  EXPECT_FAIL(FAIL_MACHINE, "/proc/self/exe: cannot dynamically load",
              { dev_open(&(DevOptions){.kind = "cuda", .threads = 1, .module = "/proc/self/exe"}); });
  EXPECT_FAIL(FAIL_INPUT, "no device of kind 'abacus'", { dev_open(&(DevOptions){.kind = "abacus", .threads = 1}); });
}

TEST(the_null_device_holds_nothing) {
  Dev *dev = dev_open(&(DevOptions){.kind = "null", .threads = 1});
  void *at = dev_alloc(dev, (size_t)1 << 40, "a tebibyte");
  EXPECT(dev_allocated(dev) == (size_t)1 << 40);
  dev_free(dev, at, (size_t)1 << 40);
  void *image;
  size_t nbytes;
  EXPECT(dev_try_build(dev, (const char *[]){"nonsense"}, 1, &image, &nbytes, NULL, NULL));
  DevModule *module = dev_load(dev, image, nbytes);
  EXPECT(dev_symbol(module, "anything"));
  dev_unload(module);
  free(image);
  dev_close(dev);
}

/* --- apart -------------------------------------------------------------------------------------------------------------- */

static const char step_text[] = "void step(void *const *p, int threads) {\n  (void)threads;\n  int *a = p[0];\n"
                                "  a[0] = a[0] * 3 + 1;\n}\n";

static void triple(void *self) { *(int *)self *= 3; }

TEST(apart_runs_in_order_what_was_started_and_waits_only_when_asked) {
  Dev *dev = dev_open(&(DevOptions){.kind = "apart", .compiler = "cc", .cache = check_folder(), .threads = 1});
  EXPECT(!dev_is_host(dev));
  const char *text = step_text;
  void *image;
  size_t nbytes;
  Why why;
  CHECK(dev_try_build(dev, &text, 1, &image, &nbytes, NULL, &why));
  DevModule *module = dev_load(dev, image, nbytes);
  int *at = dev_alloc(dev, 2 * sizeof *at, "test"), *host = dev_host_alloc(dev, 2 * sizeof *host), one = 1, got[2];
  DevEvent *event = dev_event_open(dev);
  dev_event_wait(event); /* of nothing */
  host[0] = 5;
  dev_copy_start(dev, at, host, sizeof *at);
  for (int i = 0; i < 3; i++) dev_launch(dev, dev_symbol(module, "step"), (void *[]){at}, 1, NULL);
  dev_call(dev, triple, at);
  dev_copy_start(dev, host + 1, at, sizeof *at);
  dev_event_record(event);
  dev_event_wait(event);
  EXPECT(host[0] == 5 && host[1] == 3 * (3 * (3 * (3 * 5 + 1) + 1) + 1));
  dev_copy_in(dev, at + 1, &one, sizeof one);
  dev_copy_out(dev, got, at, sizeof got);
  EXPECT(got[0] == host[1] && got[1] == 1);
  dev_event_close(event);
  dev_host_free(dev, host);
  dev_free(dev, at, 2 * sizeof *at);
  dev_unload(module);
  dev_close(dev);
  free(image);
}

TEST(the_host_that_touches_memory_apart_ends) {
  pid_t child = fork();
  if (!child) {
    Dev *dev = dev_open(&(DevOptions){.kind = "apart", .compiler = "none", .threads = 1});
    volatile int *at = dev_alloc(dev, sizeof *at, "test");
    signal(SIGSEGV, SIG_DFL);
    _exit(*at);
  }
  int status;
  EXPECT(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}
