/* SPDX-License-Identifier: Apache-2.0 */
#include "src/dev/machine.h"
#include "src/prof/prof.h"

ProfRates prof_rates(const char *device) {
  const Machine *machine = machine_of_card(device);
  if (!machine) return (ProfRates){0};
  MachineRates rates = machine_rates(machine);
  return (ProfRates){rates.narrow, rates.wide, rates.bytes};
}
