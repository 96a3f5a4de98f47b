/* SPDX-License-Identifier: Apache-2.0 */
/* Counts what a rank sends and which files it touches, for programs that are started with this in LD_PRELOAD: COUNT_CALLS.RANK gets
 * a line "message|collective|file CALL TIMES" a call.  Files are those that hpctrain itself asks for by name, not its libraries. */
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <glob.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

typedef struct Call {
  const char *kind, *name;
  atomic_long times;
} Call;

/* The linker makes one table of them, which lie where each wrapper is: libraries open files before constructors have run. */
extern Call *const __start_calls[], *const __stop_calls[];
#define ROW(kind, name)                                                                                                            \
  static Call name##_row = {kind, #name, 0};                                                                                       \
  static Call *const name##_at __attribute__((section("calls"), used)) = &name##_row;

#define WRAP(kind, name, parameters, arguments)                                                                                    \
  ROW(kind, name)                                                                                                                  \
  int name parameters {                                                                                                            \
    name##_row.times++;                                                                                                            \
    return P##name arguments;                                                                                                      \
  }

typedef MPI_Datatype T;
WRAP("message", MPI_Isend, (const void *a, int n, T t, int to, int tag, MPI_Comm c, MPI_Request *r), (a, n, t, to, tag, c, r))
WRAP("message", MPI_Send, (const void *a, int n, T t, int to, int tag, MPI_Comm c), (a, n, t, to, tag, c))
WRAP("collective", MPI_Bcast, (void *a, int n, T t, int root, MPI_Comm c), (a, n, t, root, c))
WRAP("collective", MPI_Barrier, (MPI_Comm c), (c))
WRAP("collective", MPI_Ibarrier, (MPI_Comm c, MPI_Request *r), (c, r))
WRAP("collective", MPI_Allreduce, (const void *a, void *b, int n, T t, MPI_Op o, MPI_Comm c), (a, b, n, t, o, c))
WRAP("collective", MPI_Iallreduce, (const void *a, void *b, int n, T t, MPI_Op o, MPI_Comm c, MPI_Request *r),
     (a, b, n, t, o, c, r))
WRAP("collective", MPI_Allgather, (const void *a, int n, T t, void *b, int m, T u, MPI_Comm c), (a, n, t, b, m, u, c))
WRAP("collective", MPI_Iallgather, (const void *a, int n, T t, void *b, int m, T u, MPI_Comm c, MPI_Request *r),
     (a, n, t, b, m, u, c, r))
WRAP("collective", MPI_Igather, (const void *a, int n, T t, void *b, int m, T u, int root, MPI_Comm c, MPI_Request *r),
     (a, n, t, b, m, u, root, c, r))
WRAP("collective", MPI_Ialltoall, (const void *a, int n, T t, void *b, int m, T u, MPI_Comm c, MPI_Request *r),
     (a, n, t, b, m, u, c, r))
WRAP("collective", MPI_Comm_dup, (MPI_Comm c, MPI_Comm *to), (c, to))
WRAP("collective", MPI_Comm_split, (MPI_Comm c, int colour, int key, MPI_Comm *to), (c, colour, key, to))
WRAP("collective", MPI_Comm_split_type, (MPI_Comm c, int type, int key, MPI_Info i, MPI_Comm *to), (c, type, key, i, to))
WRAP("collective", MPI_File_open, (MPI_Comm c, const char *path, int mode, MPI_Info i, MPI_File *to), (c, path, mode, i, to))

static void count_from(Call *row, const void *caller) {
  Dl_info info;
  const char *slash;
  if (!dladdr(caller, &info)) return;
  slash = strrchr(info.dli_fname, '/');
  row->times += !strncmp(slash ? slash + 1 : info.dli_fname, "hpctrain", 8);
}

#define FILE_CALL(type, name, parameters, arguments)                                                                               \
  ROW("file", name)                                                                                                                \
  type name parameters {                                                                                                           \
    count_from(&name##_row, __builtin_return_address(0));                                                                          \
    return ((type(*) parameters)dlsym(RTLD_NEXT, #name))arguments;                                                                 \
  }

FILE_CALL(FILE *, fopen, (const char *path, const char *mode), (path, mode))
FILE_CALL(FILE *, popen, (const char *command, const char *mode), (command, mode))
FILE_CALL(DIR *, opendir, (const char *path), (path))
FILE_CALL(int, access, (const char *path, int mode), (path, mode))
FILE_CALL(int, stat, (const char *path, struct stat *to), (path, to))
FILE_CALL(int, lstat, (const char *path, struct stat *to), (path, to))
FILE_CALL(int, fstatat, (int fd, const char *path, struct stat *to, int flags), (fd, path, to, flags))
FILE_CALL(int, statvfs, (const char *path, struct statvfs *to), (path, to))
FILE_CALL(int, mkdir, (const char *path, mode_t mode), (path, mode))
FILE_CALL(int, rmdir, (const char *path), (path))
FILE_CALL(int, unlink, (const char *path), (path))
FILE_CALL(int, unlinkat, (int fd, const char *path, int flags), (fd, path, flags))
FILE_CALL(int, rename, (const char *from, const char *to), (from, to))
FILE_CALL(int, renameat, (int a, const char *from, int b, const char *to), (a, from, b, to))
FILE_CALL(int, renameat2, (int a, const char *from, int b, const char *to, unsigned flags), (a, from, b, to, flags))
FILE_CALL(ssize_t, readlink, (const char *path, char *to, size_t n), (path, to, n))
FILE_CALL(char *, realpath, (const char *path, char *to), (path, to))
FILE_CALL(char *, mkdtemp, (char *path), (path))
FILE_CALL(int, mkstemp, (char *path), (path))
FILE_CALL(int, scandir,
          (const char *path, struct dirent ***to, int (*filter)(const struct dirent *),
           int (*compare)(const struct dirent **, const struct dirent **)),
          (path, to, filter, compare))
FILE_CALL(int, glob, (const char *pattern, int flags, int (*failed)(const char *, int), glob_t *to), (pattern, flags, failed, to))
int64_t H5Fopen(const char *path, unsigned flags, int64_t access);
int64_t H5Fcreate(const char *path, unsigned flags, int64_t creation, int64_t access);
FILE_CALL(int64_t, H5Fopen, (const char *path, unsigned flags, int64_t access), (path, flags, access))
FILE_CALL(int64_t, H5Fcreate, (const char *path, unsigned flags, int64_t creation, int64_t access), (path, flags, creation, access))

/* A mode comes with O_CREAT alone; one that is not there is not looked at. */
#define MODE(flags)                                                                                                                \
  ({                                                                                                                               \
    va_list more;                                                                                                                  \
    va_start(more, flags);                                                                                                         \
    mode_t mode = (flags) & (O_CREAT | __O_TMPFILE) ? va_arg(more, mode_t) : 0;                                                    \
    va_end(more);                                                                                                                  \
    mode;                                                                                                                          \
  })
ROW("file", open)
int open(const char *path, int flags, ...) {
  count_from(&open_row, __builtin_return_address(0));
  return ((int (*)(const char *, int, mode_t))dlsym(RTLD_NEXT, "open"))(path, flags, MODE(flags));
}
ROW("file", openat)
int openat(int fd, const char *path, int flags, ...) {
  count_from(&openat_row, __builtin_return_address(0));
  return ((int (*)(int, const char *, int, mode_t))dlsym(RTLD_NEXT, "openat"))(fd, path, flags, MODE(flags));
}

int MPI_Finalize(void) {
  char path[4096];
  int rank = -1;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  snprintf(path, sizeof path, "%s.%d", getenv("COUNT_CALLS"), rank);
  FILE *f = ((FILE * (*)(const char *, const char *)) dlsym(RTLD_NEXT, "fopen"))(path, "w");
  for (Call *const *c = __start_calls; f && c < __stop_calls; c++)
    if ((*c)->times) fprintf(f, "%s %s %ld\n", (*c)->kind, (*c)->name, (long)(*c)->times);
  if (!f || fclose(f)) abort();
  return PMPI_Finalize();
}
