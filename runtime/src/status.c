#include "nf/status.h"

#include <stddef.h>

typedef struct status_words {
    const char *name;
    const char *text;
} status_words;

static const status_words words[] = {
#define NF_STATUS_WORDS(name, number, text) [number] = {#name, text},
    NF_STATUSES(NF_STATUS_WORDS)
#undef NF_STATUS_WORDS
};

static const status_words *find(nf_status status)
{
    const size_t number = (size_t)status;
    return number < sizeof words / sizeof words[0] ? &words[number] : NULL;
}

const char *nf_status_name(nf_status status)
{
    const status_words *found = find(status);
    return found ? found->name : "?";
}

const char *nf_status_text(nf_status status)
{
    const status_words *found = find(status);
    return found ? found->text : "?";
}
