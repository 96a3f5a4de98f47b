/* SPDX-License-Identifier: Apache-2.0 */
/* As the chat_template of the models' own tokenizer_config.json renders conversations: Llama-2-7b-chat-hf,
 * Meta-Llama-3-8B-Instruct, Mistral-7B-Instruct-v0.2 and v0.3 (whose [INST] is a token), ChatML, Qwen2-7B-Instruct and
 * Qwen2.5-7B-Instruct. */
#include "io/chat_templates.h"

#include <stddef.h>

#define TEXT(t)                                                                                                                    \
  { CHAT_TEXT, t }
#define TOKEN(t)                                                                                                                   \
  { CHAT_TOKEN, t }
#define BOS                                                                                                                        \
  { CHAT_BOS, NULL }
#define EOS                                                                                                                        \
  { CHAT_EOS, NULL }
#define CONTENT                                                                                                                    \
  { CHAT_CONTENT, NULL }
#define ALL_TRIMMED                                                                                                                \
  { true, true, true }

#define CHATML(r)                                                                                                                  \
  { TOKEN("<|im_start|>"), TEXT(r "\n"), CONTENT, TOKEN("<|im_end|>"), TEXT("\n") }
#define CHATML_ROLES                                                                                                               \
  { CHATML("system"), CHATML("user"), CHATML("assistant") }
#define HEADED(r)                                                                                                                  \
  { TOKEN("<|start_header_id|>"), TEXT(r), TOKEN("<|end_header_id|>"), TEXT("\n\n"), CONTENT, TOKEN("<|eot_id|>") }

const ChatTemplate chat_templates[] = {
    {.name = "llama2",
     .role =
         {[CHAT_USER] = {BOS, TEXT("[INST] "), CONTENT, TEXT(" [/INST]")}, [CHAT_ASSISTANT] = {TEXT(" "), CONTENT, TEXT(" "), EOS}},
     .trim = ALL_TRIMMED,
     .alternate = true,
     .fold = {"<<SYS>>\n", "\n<</SYS>>\n\n"}},
    {.name = "llama3", .begin = {BOS}, .role = {HEADED("system"), HEADED("user"), HEADED("assistant")}, .trim = ALL_TRIMMED},
    {.name = "mistral",
     .begin = {BOS},
     .role = {[CHAT_USER] = {TEXT(" [INST] "), CONTENT, TEXT(" [/INST]")}, [CHAT_ASSISTANT] = {TEXT(" "), CONTENT, EOS}},
     .alternate = true,
     .fold = {"", "\n\n"}},
    {.name = "mistral_v3",
     .begin = {BOS},
     .role = {[CHAT_USER] = {TOKEN("[INST]"), TEXT(" "), CONTENT, TOKEN("[/INST]")}, [CHAT_ASSISTANT] = {TEXT(" "), CONTENT, EOS}},
     .trim = {[CHAT_ASSISTANT] = true},
     .alternate = true,
     .fold = {"", "\n\n"}},
    {.name = "chatml", .role = CHATML_ROLES},
    {.name = "qwen2", .role = CHATML_ROLES, .system = "You are a helpful assistant."},
    {.name = "qwen2.5", .role = CHATML_ROLES, .system = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."},
};
const int chat_ntemplates = sizeof chat_templates / sizeof *chat_templates;

const struct ChatRoleName chat_roles[] = {
    {"system", CHAT_SYSTEM}, {"user", CHAT_USER}, {"assistant", CHAT_ASSISTANT}, {"human", CHAT_USER}, {"gpt", CHAT_ASSISTANT}};
const int chat_nroles = sizeof chat_roles / sizeof *chat_roles;
