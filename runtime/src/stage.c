#include "stage.h"

#include "nf/runtime.h"

/* longest line: five words of at most 24 characters and three 20-digit numbers */
#define LINE_BYTES 192

typedef struct line {
    char text[LINE_BYTES];
    uint32_t used;
} line;

static void add_text(line *l, const char *text)
{
    while (*text != '\0' && l->used < LINE_BYTES - 2u) {
        l->text[l->used] = *text;
        ++l->used;
        ++text;
    }
}

static void add_number(line *l, uint64_t value)
{
    char digits[21];
    uint32_t at = sizeof digits - 1u;
    uint64_t rest = value;
    digits[at] = '\0';
    do {
        --at;
        digits[at] = (char)('0' + (char)(rest % 10u));
        rest /= 10u;
    } while (rest != 0u);
    add_text(l, &digits[at]);
}

void nf_stage_fields(const nf_port *port, const char *name, nf_status status,
                     const nf_field *fields, uint32_t count)
{
    if (port->log == NULL)
        return;
    line l;
    l.used = 0u;
    add_text(&l, "nf-stage ");
    add_text(&l, name);
    add_text(&l, " result=");
    add_number(&l, (uint64_t)status);
    add_text(&l, " t_us=");
    add_number(&l, port->now_us());
    for (uint32_t i = 0u; i < count; ++i) {
        add_text(&l, " ");
        add_text(&l, fields[i].name);
        add_text(&l, "=");
        add_number(&l, fields[i].value);
    }
    if (status != NF_OK) {
        add_text(&l, " status=");
        add_text(&l, nf_status_name(status));
    }
    l.text[l.used] = '\n';
    l.text[l.used + 1u] = '\0';
    port->log(l.text);
}

void nf_stage(const nf_port *port, const char *name, nf_status status)
{
    nf_stage_fields(port, name, status, NULL, 0u);
}
