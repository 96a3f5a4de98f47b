#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# jobs/quickstart.sh as users run it, once built: what it learns.
. "$(dirname "$0")/../check.sh"

test_the_loss_ends_a_third_below_order_0() {
  local begin=$SECONDS percent
  BUILD=$builddir expect_run 0 "$srcdir/jobs/quickstart.sh" quickstart
  percent=$(sed -n 's/.* \([0-9-]*\) % below order-0 .*/\1/p' out)
  echo "note  $percent % below order-0 in $((SECONDS - begin)) s" >&2
  [ "$percent" -ge 35 ]
}

check_main "$@"
