/* Unit checks of the safe runtime against a port that records every call.
 *
 * Memory: four arrays stand for a shared RAM, a RAM that only the CPU reaches, flash and an
 * unpowered bank. Prints one line a failed check; the exit code is their number. */
#include "nf/runtime.h"

#include <stdio.h>
#include <string.h>

#define LINE 32u

static uint8_t shared[8192] __attribute__((aligned(4096)));
static uint8_t private_ram[1024] __attribute__((aligned(1024)));
static uint8_t dark[1024] __attribute__((aligned(1024)));
static uint8_t closed[1024] __attribute__((aligned(1024)));
static uint8_t heap[1024] __attribute__((aligned(1024)));
static uint8_t stack[1024] __attribute__((aligned(1024)));
static uint8_t nowhere[1024] __attribute__((aligned(1024)));
static uint8_t weights[64] __attribute__((aligned(64))) = {1, 2, 3, 4};

static int failures;
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            ++failures;                                                                            \
            printf("line %d: %s\n", __LINE__, #condition);                                         \
        }                                                                                          \
    } while (0)
#define EXPECT(call, want)                                                                         \
    do {                                                                                           \
        const nf_status got = (call);                                                              \
        if (got != (want)) {                                                                       \
            ++failures;                                                                            \
            printf("line %d: %s is %s, not %s\n", __LINE__, #call, nf_status_name(got), #want);    \
        }                                                                                          \
    } while (0)

/* --- the port ------------------------------------------------------------------------------- */

static struct { char kind; uintptr_t base, bytes; } calls[256];
static unsigned call_count;
static uint64_t now;
static nf_status answer = NF_OK;
static unsigned polls_left;
static char log_text[8192];

static void record(char kind, uintptr_t base, uintptr_t bytes)
{
    if (base % LINE != 0 || bytes % LINE != 0)
        ++failures, printf("%c of a part of a line: %zx+%zx\n", kind, (size_t)base, (size_t)bytes);
    calls[call_count].kind = kind;
    calls[call_count].base = base;
    calls[call_count++].bytes = bytes;
}
static void clean(uintptr_t base, uintptr_t bytes) { record('c', base, bytes); }
static void invalidate(uintptr_t base, uintptr_t bytes) { record('i', base, bytes); }
static void barrier(void) { __asm volatile("" ::: "memory"); }
static uint64_t now_us(void) { return now += 3; }
static nf_status submit(const nf_job *job) { (void)job; return NF_OK; }
static nf_status poll(void) { return polls_left > 0 ? (--polls_left, NF_PENDING) : answer; }
static nf_status poll_never(void) { return NF_PENDING; }
static nf_status probe(uintptr_t base, uintptr_t bytes, uint32_t masters)
{
    (void)bytes;
    if (base - (uintptr_t)dark < sizeof dark)
        return NF_E_UNPOWERED;
    return base - (uintptr_t)closed < sizeof closed && masters ? NF_E_CLOSED : NF_OK;
}
static void log_line(const char *line) { strcat(log_text, line); }

static nf_port port = {NF_REACH_NPU, LINE, clean, invalidate, barrier, now_us, submit, poll, NULL,
                       probe, log_line};

/* --- a network with two inputs, two outputs and a state; output 0 lies where input 0 lies ----- */

static uint8_t *spaces[] = {weights, shared};
static uint32_t space_bytes[] = {64, 1024};
static const nf_io inputs[] = {{"a", NF_INT8, 1, 1, 0, 100, {100}, 0, 0},
                               {"b", NF_INT8, 1, 1, 128, 64, {64}, 0, 0}};
static const nf_io outputs[] = {{"y", NF_INT8, 1, 1, 0, 10, {10}, 0, 0},
                                {"z", NF_INT8, 1, 1, 512, 40, {40}, 0, 0}};
static const nf_state states[] = {{1, 768, 16, 0}};
static nf_network network = {"net", {NULL, 0}, spaces, 2, inputs, 2, outputs, 2, NULL, 0,
                             states, 1, space_bytes, 0, 77, NF_ABI};
static uint8_t *other_spaces[] = {weights, shared + 512};
static uint32_t other_bytes[] = {64, 1024};
static nf_network other = {"other", {NULL, 0}, other_spaces, 2, inputs, 1, outputs, 1, NULL, 0,
                           NULL, 0, other_bytes, 0, 78, NF_ABI};
static const nf_model models[] = {{&network, 77}, {&other, 78}};

#define ALL (NF_REACH_CPU | NF_REACH_NPU | NF_REACH_DMA)
static nf_pool pools[8];
static nf_zone zones[2];
static nf_config config = {&port, pools, 7, zones, 2, models, 2, 0, 0, 0};
static nf_runtime rt;

static void pool(int i, const char *name, uint8_t *base, uint32_t bytes, uint32_t from,
                 uint32_t flags)
{
    pools[i] = (nf_pool){name, (uintptr_t)base, bytes, (uintptr_t)base + from, bytes - from, flags};
}

static void set_up(void)
{
    pool(0, "shared", shared, sizeof shared, 2048, ALL | NF_CACHEABLE | NF_WRITABLE);
    pool(1, "private", private_ram, sizeof private_ram, 0, NF_REACH_CPU | NF_WRITABLE);
    pool(2, "dark", dark, sizeof dark, sizeof dark, ALL | NF_WRITABLE);
    pool(3, "closed", closed, sizeof closed, sizeof closed, ALL | NF_WRITABLE);
    pool(4, "heap", heap, sizeof heap, sizeof heap, ALL | NF_WRITABLE);
    pool(5, "stack", stack, sizeof stack, sizeof stack, ALL | NF_WRITABLE);
    pool(6, "flash", weights, sizeof weights, sizeof weights, ALL);
    zones[0] = (nf_zone){NF_ZONE_STACK, (uintptr_t)stack, sizeof stack};
    zones[1] = (nf_zone){NF_ZONE_HEAP, (uintptr_t)heap, sizeof heap};
}

static void check_init(uint32_t crc)
{
    nf_buffer b;
    /* the second network is the first's without its crc: both must hold */
    network.weights_crc = other.weights_crc = crc;
    EXPECT(nf_on_completion(&rt, NF_OK), NF_E_NOT_INITIALISED);
    EXPECT(nf_submit(&rt, 0), NF_E_NOT_INITIALISED);
    EXPECT(nf_wait(&rt, 1), NF_E_NOT_INITIALISED);
    EXPECT(nf_buffer_register(&rt, shared + 2048, 32, NF_REACH_DMA, NF_SCOPED, &b),
           NF_E_NOT_INITIALISED);
    EXPECT(nf_init(NULL, &config), NF_E_ARGUMENT);
    network.abi = NF_ABI + 1;
    EXPECT(nf_init(&rt, &config), NF_E_VERSION);
    EXPECT(nf_submit(&rt, 0), NF_E_NOT_INITIALISED);
    network.abi = NF_ABI;
    network.build = 1;
    EXPECT(nf_init(&rt, &config), NF_E_STALE_FIRMWARE);
    network.build = 77;
    weights[5] ^= 1;
    EXPECT(nf_init(&rt, &config), NF_E_WEIGHTS_WRONG);
    weights[5] ^= 1;
    uint8_t kept[sizeof weights];
    memcpy(kept, weights, sizeof kept);
    memset(weights, 0xFF, sizeof weights);
    EXPECT(nf_init(&rt, &config), NF_E_WEIGHTS_ABSENT);
    memset(weights, 0, sizeof weights);
    EXPECT(nf_init(&rt, &config), NF_E_WEIGHTS_ABSENT);
    memcpy(weights, kept, sizeof kept);
    spaces[1] = shared + 16;
    EXPECT(nf_init(&rt, &config), NF_E_MISALIGNED);
    spaces[1] = private_ram;
    EXPECT(nf_init(&rt, &config), NF_E_UNREACHABLE);
    spaces[1] = dark;
    EXPECT(nf_init(&rt, &config), NF_E_UNPOWERED);
    spaces[1] = closed;
    EXPECT(nf_init(&rt, &config), NF_E_CLOSED);
    spaces[1] = nowhere;
    EXPECT(nf_init(&rt, &config), NF_E_NO_POOL);
    spaces[1] = shared;
    log_text[0] = '\0';
    EXPECT(nf_init(&rt, &config), NF_OK);
}

static void check_addresses(void)
{
    nf_buffer b = 9;
#define REGISTER(address, bytes, masters) nf_buffer_register(&rt, address, bytes, masters, NF_SCOPED, &b)
    EXPECT(REGISTER(NULL, 32, 0), NF_E_ARGUMENT);
    EXPECT(REGISTER(shared + 2048, 0, 0), NF_E_ARGUMENT);
    EXPECT(REGISTER((void *)(UINTPTR_MAX - 15), 64, 0), NF_E_ARGUMENT);
    EXPECT(REGISTER(stack + 64, 32, NF_REACH_DMA), NF_E_STACK);
    EXPECT(REGISTER(heap + 64, 32, NF_REACH_DMA), NF_E_HEAP);
    EXPECT(REGISTER(nowhere, 32, NF_REACH_DMA), NF_E_NO_POOL);
    EXPECT(REGISTER(shared + sizeof shared - 32, 64, 0), NF_E_NO_POOL);
    EXPECT(REGISTER(private_ram, 32, NF_REACH_DMA), NF_E_UNREACHABLE);
    EXPECT(REGISTER(shared + 2048 + 4, 32, NF_REACH_DMA), NF_E_MISALIGNED);
    EXPECT(REGISTER(shared + 2048 + 16, 32, NF_REACH_DMA), NF_E_MISALIGNED);
    EXPECT(REGISTER(shared + 2048, 40, NF_REACH_DMA), NF_E_PARTIAL_LINE);
    EXPECT(REGISTER(dark, 32, NF_REACH_DMA), NF_E_UNPOWERED);
    EXPECT(REGISTER(closed, 32, NF_REACH_DMA), NF_E_CLOSED);
    EXPECT(REGISTER(shared + 992, 64, NF_REACH_DMA), NF_E_OVERLAP);
    CHECK(b == 0);
    EXPECT(REGISTER(private_ram + 3, 7, 0), NF_OK);
    const nf_buffer first = b;
    EXPECT(REGISTER(private_ram + 9, 8, 0), NF_E_OVERLAP);
    EXPECT(nf_buffer_release(&rt, first), NF_OK);
    EXPECT(nf_buffer_release(&rt, first), NF_E_FREED);
    EXPECT(REGISTER(private_ram + 9, 8, 0), NF_OK);
    const void *data;
    EXPECT(nf_buffer_read(&rt, first, &data), NF_E_FREED);
    EXPECT(nf_buffer_read(&rt, 0, &data), NF_E_ARGUMENT);
    EXPECT(nf_buffer_read(&rt, 0xFFFFFFFFu, &data), NF_E_ARGUMENT);
    EXPECT(nf_buffer_read(&rt, NF_MAX_BUFFERS, &data), NF_E_ARGUMENT);
    EXPECT(nf_buffer_release(&rt, b), NF_OK);
}

static void check_alloc(void)
{
    nf_buffer held[NF_MAX_BUFFERS];
    nf_buffer_info info;
    uintptr_t last = 0;
    EXPECT(nf_buffer_alloc(&rt, 1, 0, 1u << 9, NF_SCOPED, held), NF_E_UNREACHABLE);
    EXPECT(nf_buffer_alloc(&rt, sizeof shared, 0, NF_REACH_DMA, NF_SCOPED, held), NF_E_NO_ROOM);
    EXPECT(nf_buffer_alloc(&rt, 1, 96, NF_REACH_DMA, NF_SCOPED, held), NF_E_ARGUMENT);
    EXPECT(nf_buffer_alloc(&rt, 0xFFFFFFF0u, 0, NF_REACH_DMA, NF_SCOPED, held), NF_E_ARGUMENT);
    for (unsigned i = 0; i < NF_MAX_BUFFERS; ++i) {
        EXPECT(nf_buffer_alloc(&rt, 100, i == 3 ? 256 : 0, NF_REACH_DMA, NF_SCOPED, &held[i]), NF_OK);
        EXPECT(nf_buffer_query(&rt, held[i], &info), NF_OK);
        CHECK(info.bytes == 128 && info.address % (i == 3 ? 256 : 32) == 0);
        CHECK(info.address >= (uintptr_t)shared + 2048);
        CHECK(info.address + info.bytes <= (uintptr_t)shared + sizeof shared);
        CHECK(i == 3 || i == 4 || info.address >= last);
        last = info.address;
    }
    nf_buffer more;
    EXPECT(nf_buffer_alloc(&rt, 100, 0, NF_REACH_DMA, NF_SCOPED, &more), NF_E_NO_ROOM);
    EXPECT(nf_buffer_query(&rt, held[2], &info), NF_OK);
    last = info.address;
    EXPECT(nf_buffer_release(&rt, held[2]), NF_OK);
    EXPECT(nf_buffer_alloc(&rt, 128, 0, NF_REACH_DMA, NF_PERMANENT, &more), NF_OK);
    EXPECT(nf_buffer_query(&rt, more, &info), NF_OK);
    CHECK(info.address == last);
    EXPECT(nf_buffer_release(&rt, more), NF_E_PERMANENT);
    for (unsigned i = 0; i < NF_MAX_BUFFERS; ++i)
        EXPECT(nf_buffer_release(&rt, held[i]), i == 2 ? NF_E_FREED : NF_OK);
}

static void check_ownership(void)
{
    nf_buffer b;
    void *data;
    const void *seen;
    EXPECT(nf_buffer_alloc(&rt, 256, 0, NF_REACH_DMA, NF_SCOPED, &b), NF_OK);
    EXPECT(nf_buffer_write(&rt, b, &data), NF_OK);
    EXPECT(nf_buffer_take(&rt, b), NF_E_NOT_OWNER);
    EXPECT(nf_buffer_give(&rt, b, NF_REACH_NPU), NF_E_UNREACHABLE);
    EXPECT(nf_buffer_give(&rt, b, NF_REACH_CPU), NF_E_UNREACHABLE);
    call_count = 0;
    EXPECT(nf_buffer_give(&rt, b, NF_REACH_DMA), NF_OK);
    CHECK(call_count == 1 && calls[0].kind == 'c' && calls[0].base == (uintptr_t)data &&
          calls[0].bytes == 256);
    EXPECT(nf_buffer_give(&rt, b, NF_REACH_DMA), NF_E_IN_FLIGHT);
    EXPECT(nf_buffer_write(&rt, b, &data), NF_E_IN_FLIGHT);
    EXPECT(nf_buffer_read(&rt, b, &seen), NF_E_IN_FLIGHT);
    EXPECT(nf_buffer_release(&rt, b), NF_E_IN_FLIGHT);
    const nf_frame frame = {(uint8_t *)data + 32, 100, 1, NULL, 0};
    EXPECT(nf_input(&rt, 0, 0, &frame), NF_E_IN_FLIGHT);
    EXPECT(nf_buffer_take(&rt, b), NF_OK);
    CHECK(call_count == 1);
    EXPECT(nf_buffer_read(&rt, b, &seen), NF_OK);
    EXPECT(nf_buffer_read(&rt, b, &seen), NF_OK);
    CHECK(call_count == 2 && calls[1].kind == 'i' && calls[1].bytes == 256);
    EXPECT(nf_buffer_give(&rt, b, NF_REACH_DMA), NF_OK);
    CHECK(call_count == 2); /* nothing written since */
    EXPECT(nf_buffer_take(&rt, b), NF_OK);
    EXPECT(nf_buffer_release(&rt, b), NF_OK);
    CHECK(call_count == 2);
}

static void check_inference(void)
{
    void *data;
    const void *result;
    EXPECT(nf_wait(&rt, 0), NF_E_IDLE);
    EXPECT(nf_submit(&rt, 5), NF_E_ARGUMENT);
    EXPECT(nf_submit(&rt, 0), NF_E_NO_INPUT);
    EXPECT(nf_output(&rt, 0, 0, &result), NF_E_NO_OUTPUT);
    EXPECT(nf_reset(&rt, 0), NF_OK);
    CHECK(memcmp(shared + 768, weights, 16) == 0);
    EXPECT(nf_input_place(&rt, 0, 0, &data), NF_OK);
    EXPECT(nf_submit(&rt, 0), NF_E_NO_INPUT);
    EXPECT(nf_input_place(&rt, 0, 1, &data), NF_OK);
    EXPECT(nf_input_place(&rt, 0, 2, &data), NF_E_ARGUMENT);
    call_count = 0;
    polls_left = 2;
    EXPECT(nf_submit(&rt, 0), NF_OK);
    /* inputs 0..127 and 128..191 are one range; the state is another */
    CHECK(call_count == 2 && calls[0].base == (uintptr_t)shared && calls[0].bytes == 192);
    CHECK(calls[1].base == (uintptr_t)shared + 768 && calls[1].bytes == 32);
    EXPECT(nf_submit(&rt, 0), NF_E_IN_FLIGHT);
    EXPECT(nf_submit(&rt, 1), NF_E_IN_FLIGHT);
    EXPECT(nf_input_place(&rt, 0, 0, &data), NF_E_IN_FLIGHT);
    EXPECT(nf_input_place(&rt, 1, 0, &data), NF_E_IN_FLIGHT); /* shares memory with it */
    EXPECT(nf_reset(&rt, 0), NF_E_IN_FLIGHT);
    EXPECT(nf_output(&rt, 0, 0, &result), NF_E_IN_FLIGHT);
    EXPECT(nf_wait(&rt, 0), NF_PENDING);
    EXPECT(nf_wait(&rt, 1000), NF_OK);
    CHECK(call_count == 2);
    EXPECT(nf_output(&rt, 0, 1, &result), NF_OK);
    EXPECT(nf_output(&rt, 0, 1, &result), NF_OK);
    CHECK(call_count == 3 && calls[2].kind == 'i' && calls[2].base == (uintptr_t)shared + 512 &&
          calls[2].bytes == 64);
    EXPECT(nf_output(&rt, 0, 2, &result), NF_E_ARGUMENT);
    /* output 0 lies where input 0 lies: gone once the next frame is there; output 1 stays */
    EXPECT(nf_input_place(&rt, 0, 0, &data), NF_OK);
    EXPECT(nf_output(&rt, 0, 0, &result), NF_E_NO_OUTPUT);
    EXPECT(nf_output(&rt, 0, 1, &result), NF_OK);
    /* a run of the other network, whose memory overlaps, takes the rest */
    EXPECT(nf_input_place(&rt, 1, 0, &data), NF_OK);
    polls_left = 0;
    EXPECT(nf_run(&rt, 1, 1000), NF_OK);
    EXPECT(nf_output(&rt, 0, 1, &result), NF_E_NO_OUTPUT);
    EXPECT(nf_submit(&rt, 0), NF_E_NO_INPUT);
}

static void fill(void)
{
    void *data;
    EXPECT(nf_input_place(&rt, 0, 0, &data), NF_OK);
    EXPECT(nf_input_place(&rt, 0, 1, &data), NF_OK);
}

static void check_trouble(void)
{
    const void *result;
    nf_counters before, after;
    nf_stats(&rt, &before);
    EXPECT(nf_on_completion(&rt, NF_OK), NF_E_SPURIOUS);
    fill();
    answer = NF_E_ACCELERATOR;
    EXPECT(nf_run(&rt, 0, 1000), NF_E_ACCELERATOR);
    EXPECT(nf_output(&rt, 0, 0, &result), NF_E_NO_OUTPUT);
    answer = NF_OK;
    port.poll = poll_never;
    fill();
    EXPECT(nf_run(&rt, 0, 100), NF_E_TIMEOUT);
    EXPECT(nf_submit(&rt, 0), NF_E_IN_FLIGHT); /* still locked */
    EXPECT(nf_on_completion(&rt, NF_OK), NF_OK);
    EXPECT(nf_on_completion(&rt, NF_OK), NF_E_SPURIOUS);
    EXPECT(nf_wait(&rt, 100), NF_OK);
    EXPECT(nf_output(&rt, 0, 0, &result), NF_OK);
    port.poll = poll;
    nf_stats(&rt, &after);
    CHECK(after.failures == before.failures + 1 && after.inferences == before.inferences + 1);
    CHECK(after.spurious == before.spurious + 2 && after.last_us > 0);
}

static void check_frames(void)
{
    static uint32_t counter;
    nf_buffer b;
    void *data;
    EXPECT(nf_reset(&rt, 0), NF_OK);
    EXPECT(nf_buffer_alloc(&rt, 128, 0, NF_REACH_DMA, NF_SCOPED, &b), NF_OK);
    EXPECT(nf_buffer_write(&rt, b, &data), NF_OK);
    memset(data, 7, 100);
    nf_frame frame = {data, 100, 5, &counter, 0};
    counter = 5;
    EXPECT(nf_input(&rt, 0, 0, &frame), NF_OK);
    CHECK(shared[99] == 7);
    EXPECT(nf_input(&rt, 0, 0, &frame), NF_E_FRAME_REPEATED);
    frame.number = 4;
    EXPECT(nf_input(&rt, 0, 0, &frame), NF_E_FRAME_REPEATED);
    frame.number = counter = 9;
    EXPECT(nf_input(&rt, 0, 0, &frame), NF_OK);
    frame.number = 10;
    counter = 11;
    EXPECT(nf_input(&rt, 0, 0, &frame), NF_E_FRAME_TORN);
    counter = 10;
    config.max_frame_age_us = 50;
    frame.time_us = now;
    EXPECT(nf_input(&rt, 0, 0, &frame), NF_OK);
    frame.number = counter = 11;
    now += 100;
    EXPECT(nf_input(&rt, 0, 0, &frame), NF_E_FRAME_LATE);
    config.max_frame_age_us = 0;
    frame.bytes = 99;
    EXPECT(nf_input(&rt, 0, 0, &frame), NF_E_SIZE);
    frame.bytes = 100;
    frame.data = nowhere;
    EXPECT(nf_input(&rt, 0, 0, &frame), NF_E_NOT_REGISTERED);
    frame.data = stack;
    EXPECT(nf_input(&rt, 0, 0, &frame), NF_E_STACK);
    frame.data = heap;
    EXPECT(nf_input(&rt, 0, 0, &frame), NF_E_HEAP);
    frame.data = (uint8_t *)data + 64; /* reaches over the end of the buffer */
    EXPECT(nf_input(&rt, 0, 0, &frame), NF_E_NOT_REGISTERED);
    nf_counters c;
    nf_stats(&rt, &c);
    CHECK(c.frames == 3 && c.frames_dropped == 3 && c.frames_torn == 1 && c.frames_late == 1 &&
          c.frames_repeated == 2);
    EXPECT(nf_buffer_release(&rt, b), NF_OK);
}

/* Where the CPU runs the networks, what it wrote is never discarded, and a DMA's buffers are maintained. */
static void check_cpu_port(void)
{
    const void *out = NULL;
    void *in = NULL;
    nf_buffer b;
    const size_t logged = strlen(log_text);
    port.master = NF_REACH_CPU;
    call_count = 0;
    EXPECT(nf_init(&rt, &config), NF_OK);
    EXPECT(nf_reset(&rt, 0), NF_OK);
    EXPECT(nf_input_place(&rt, 0, 0, &in), NF_OK);
    EXPECT(nf_input_place(&rt, 0, 1, &in), NF_OK);
    EXPECT(nf_run(&rt, 0, 1000), NF_OK);
    EXPECT(nf_output(&rt, 0, 0, &out), NF_OK);
    EXPECT(nf_output(&rt, 0, 1, &out), NF_OK);
    CHECK(call_count == 0);
    EXPECT(nf_buffer_alloc(&rt, 64, 0, NF_REACH_DMA, NF_SCOPED, &b), NF_OK);
    EXPECT(nf_buffer_give(&rt, b, NF_REACH_DMA), NF_OK);
    CHECK(call_count == 1 && calls[0].kind == 'c' && calls[0].bytes == 64);
    EXPECT(nf_buffer_take(&rt, b), NF_OK);
    EXPECT(nf_buffer_read(&rt, b, &out), NF_OK);
    CHECK(call_count == 2 && calls[1].kind == 'i' && calls[1].bytes == 64);
    port.master = NF_REACH_NPU;
    EXPECT(nf_init(&rt, &config), NF_OK);
    log_text[logged] = '\0';
}

int main(int argc, char **argv)
{
    unsigned crc = 0;
    for (unsigned i = 4; i < sizeof weights; ++i)
        weights[i] = (uint8_t)(i * 7);
    (void)argc;
    sscanf(argv[1], "%x", &crc);
    set_up();
    check_init(crc);
    check_addresses();
    check_alloc();
    check_ownership();
    check_inference();
    check_trouble();
    check_frames();
    check_cpu_port();
    config.log_runs = 1;
    fill();
    EXPECT(nf_run(&rt, 0, 1000), NF_OK);
    EXPECT(nf_init(&rt, &config), NF_OK);
    network.build = 1;
    EXPECT(nf_init(&rt, &config), NF_E_STALE_FIRMWARE);
    fputs(log_text, stdout);
    return failures;
}
