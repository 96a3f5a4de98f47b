/* SPDX-License-Identifier: Apache-2.0 */
/* PMIx, where configure found it and a server answers.  One process's view; nothing here is collective. */
#include "src/comm/impl.h"

#ifdef HAVE_PMIX

#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_open;
static pmix_proc_t self;

/* A text value of this job; types differ by launcher, so that another type is as good as none. */
static void text_get(const char *key, char *out, size_t nbytes) {
  pmix_value_t *value = NULL;
  pmix_proc_t me = self;
  if (PMIx_Get(&me, key, NULL, 0, &value) != PMIX_SUCCESS) return;
  if (value->type == PMIX_STRING && value->data.string) snprintf(out, nbytes, "%s", value->data.string);
  PMIX_VALUE_RELEASE(value);
}

bool pmix_open(char node[NODE_NAME], char *version, size_t nbytes) {
  if (!getenv("PMIX_RANK") || PMIx_Init(&self, NULL, 0) != PMIX_SUCCESS) return false;
  is_open = true;
  text_get(PMIX_HOSTNAME, node, NODE_NAME);
  const char *words = PMIx_Get_version(); /* "OpenPMIx 4.2.2rc2 (PMIx Standard: …" */
  const char *number = strpbrk(words, "0123456789");
  snprintf(version, nbytes, "PMIx %.*s", number ? (int)strcspn(number, " ,") : 0, number ? number : "");
  return true;
}

void pmix_close(void) {
  if (is_open) PMIx_Finalize(NULL, 0);
  is_open = false;
}

void pmix_abort(int status) { PMIx_Abort(status, NULL, NULL, 0); }

#else

bool pmix_open(char node[NODE_NAME], char *version, size_t nbytes) {
  (void)node, (void)version, (void)nbytes;
  return false;
}

void pmix_close(void) {}

void pmix_abort(int status) { (void)status; }

#endif
