#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The tree keeps its shape, and test/layers.sh would see it if it did not: each test but the first breaks one rule in a
# small copy of the tree.
. "$(dirname "$0")/check.sh"

test_tree_keeps_its_shape() { "$srcdir/test/layers.sh" "$srcdir"; }

# tree: a small sound tree in this folder; layers STATUS CHECK…: judges it.
tree() {
  local file
  mkdir -p src/base src/config src/train src/cmd io kernels test/unit jobs .ci
  for file in ARCHITECTURE.md .clang-format; do cp "$srcdir/$file" .; done
  for file in src/base/a.h src/config/a.h src/train/a.h src/cmd/main.c io/a.h kernels/a.h test/unit/test_a.c; do
    echo '/* SPDX-License-Identifier: Apache-2.0 */' > $file
  done
  printf '# SPDX-License-Identifier: Apache-2.0\n' | tee autogen.sh configure.ac > Makefile.am
  echo 'x = src/base/a.h src/config/a.h src/train/a.h src/cmd/main.c io/a.h kernels/a.h test/unit/test_a' >> Makefile.am
  echo 'a quick - 10 test/unit/test_a' > test/plan
}
layers() {
  local status=$1
  shift
  expect_run "$status" "$srcdir/test/layers.sh" . "$@"
}
# breaks CHECK FILE LINE PATTERN: with LINE added to FILE, the check tells so.
breaks() {
  tree
  layers 0 "$1"
  echo "$3" >> "$2"
  layers 1 "$1"
  expect_out "$4"
}

test_sound_tree_passes() {
  tree
  echo '#include "src/base/a.h"' >> src/config/a.h
  echo '#include <yaml.h>' >> src/config/a.h
  echo '#include <stdio.h>' >> src/base/a.h
  echo '#include "src/train/a.h"' >> src/cmd/main.c
  echo '#include <mpi.h>' >> test/unit/test_a.c
  layers 0
}
test_upward_include_fires() { breaks includes src/base/a.h '#include "src/config/a.h"' '^src/base/a.h:2: src/base may not include src/config'; }
test_sideward_include_fires() { breaks includes src/config/a.h '#include "io/a.h"' 'src/config may not include io'; }
test_main_from_train_fires() { breaks includes src/train/a.h ' #  include "src/cmd/a.h"' 'src/train may not include src/cmd'; }
test_relative_include_fires() { breaks includes src/base/a.h '#include "b.h"' 'from the top'; }
test_foreign_header_elsewhere_fires() {
  local header
  for header in mpi.h pmix.h hdf5.h jansson.h cuda.h cuda_runtime.h nccl.h omp.h cblas.h dnnl.h pcre2.h; do
    rm -rf src
    breaks includes src/config/a.h "#include <$header>" "src/config may not include <$header>"
  done
  rm -rf src
  breaks includes src/base/a.h '#include <yaml.h>' 'src/base may not include <yaml.h>'
}
test_openmp_elsewhere_fires() { breaks includes src/train/a.h '#pragma omp parallel' 'may not use OpenMP'; }
test_hidden_include_fires() { breaks includes src/base/a.h '#include HEADER' 'cannot be seen'; }
test_new_folder_fires() {
  tree
  mkdir src/util
  echo > src/util/a.h
  layers 1 includes
  expect_out 'src/util is in no row'
}
test_table_gone_fires() {
  tree
  sed -i '/<!-- rooms/d' ARCHITECTURE.md
  layers 1 includes
  expect_out 'no table of rooms'
}
test_model_named_elsewhere_fires() {
  breaks models src/train/a.h 'bool gated = !strcmp(family, "llama");' '^src/train/a.h:2: names a model'
  printf '%s\n' '/* as in' 'llama */ int x; /* llama */' '.example = "llama2-7b"' > src/train/a.h
  layers 0 models
  printf '/* llama\n*/ int y = MODEL_LLAMA3;' > src/train/a.h
  layers 1 models
  expect_out '^src/train/a.h:2: names'
}
test_raw_thread_fires() {
  breaks threads src/train/a.h '  if (pthread_create(&thread, NULL, run, self)) return;' '^src/train/a.h:2: thread_start'
}
test_missing_licence_fires() {
  tree
  layers 0 licence
  echo 'int x;' > src/base/a.h
  layers 1 licence
  expect_out '^src/base/a.h:1: no SPDX'
}
test_long_file_fires() {
  tree
  yes '/* */' | head -n 799 >> io/a.h
  layers 0 length
  echo '/* */' >> io/a.h
  layers 1 length
  expect_out '^io/a.h:801: longer'
}
test_unlisted_source_fires() {
  tree
  layers 0 lists
  echo > io/b.c
  layers 1 lists
  expect_out 'Makefile.am:1: does not list io/b.c'
}
test_unlisted_case_fires() {
  tree
  mkdir -p test/ir
  echo > test/ir/b.txt
  layers 1 lists
  expect_out 'Makefile.am:1: does not list test/ir/b.txt'
}
test_unplanned_test_fires() {
  tree
  : > test/plan
  layers 1 lists
  expect_out 'test/plan:1: has no row for test/unit/test_a'
}
test_format_fires() {
  if ! { clang-format-14 --version || clang-format --version; } 2> /dev/null | grep -q 'version 14\.'; then
    tree
    layers 0 format
    expect_err '^note  no clang-format 14'
    return
  fi
  breaks format io/a.h 'int   x;' '^io/a.h:2: clang-format would change it'
}

check_main "$@"
