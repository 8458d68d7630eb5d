/* Results of the runtime's calls, each with a number, a name and a text.
 *
 * Numbers are part of the log format (`result=N`) and never change their meaning.
 */
#ifndef NF_STATUS_H
#define NF_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#define NF_STATUSES(X)                                                                             \
    X(NF_OK, 0, "done")                                                                            \
    X(NF_PENDING, 1, "the accelerator is still running")                                           \
    X(NF_E_ARGUMENT, 2, "an argument is NULL or out of range")                                     \
    X(NF_E_NOT_INITIALISED, 3, "called before nf_init")                                            \
    X(NF_E_VERSION, 4, "network and runtime are of different versions")                            \
    X(NF_E_STALE_FIRMWARE, 5, "header and network object come from different generations")         \
    X(NF_E_WEIGHTS_ABSENT, 6, "weights are not programmed: memory is erased or zero")              \
    X(NF_E_WEIGHTS_WRONG, 7, "weights are not those this firmware was made for")                   \
    X(NF_E_NOT_REGISTERED, 8, "no registered buffer holds this address range")                     \
    X(NF_E_NO_POOL, 9, "address range lies in no memory pool")                                     \
    X(NF_E_STACK, 10, "address is on a stack: it dies with its function")                          \
    X(NF_E_HEAP, 11, "address is on the C heap: alignment and lifetime are unknown")               \
    X(NF_E_MISALIGNED, 12, "address is not a multiple of the needed alignment")                    \
    X(NF_E_PARTIAL_LINE, 13, "size is not a whole number of cache lines: the last one is shared")  \
    X(NF_E_UNREACHABLE, 14, "the master cannot reach this pool")                                   \
    X(NF_E_UNPOWERED, 15, "the memory bank has no clock or is shut down")                          \
    X(NF_E_CLOSED, 16, "an isolation filter keeps the master out of this region")                  \
    X(NF_E_OVERLAP, 17, "address range overlaps another buffer")                                   \
    X(NF_E_NO_ROOM, 18, "no room left in the pool or in the registry")                             \
    X(NF_E_IN_FLIGHT, 19, "a master is using the buffer")                                          \
    X(NF_E_FREED, 20, "the buffer was released before")                                            \
    X(NF_E_NOT_OWNER, 21, "the buffer is not with the side that gives it away")                    \
    X(NF_E_SIZE, 22, "number of bytes differs from that of the tensor")                            \
    X(NF_E_NO_INPUT, 23, "an input was not filled since the last run")                             \
    X(NF_E_NO_OUTPUT, 24, "no result: not run yet, failed, or overwritten by a new input")         \
    X(NF_E_TIMEOUT, 25, "no completion in time; buffers stay locked")                              \
    X(NF_E_ACCELERATOR, 26, "the accelerator reports an error")                                    \
    X(NF_E_PROGRAM, 27, "the step table does not run")                                             \
    X(NF_E_SPURIOUS, 28, "completion reported while nothing was running")                          \
    X(NF_E_FRAME_TORN, 29, "the frame changed while it was copied")                                \
    X(NF_E_FRAME_LATE, 30, "the frame is older than allowed")                                      \
    X(NF_E_FRAME_REPEATED, 31, "the frame was used before")                                        \
    X(NF_E_PERMANENT, 32, "the buffer is permanent and cannot be released")                         \
    X(NF_E_IDLE, 33, "nothing is in flight")                                                       \
    X(NF_E_SCATTERED, 34, "pages of the range are not contiguous in physical memory")               \
    X(NF_E_WRONG_ANSWER, 35, "a network does not reproduce the answer stored with it")

typedef enum nf_status {
#define NF_STATUS_ENUM(name, number, text) name = number,
    NF_STATUSES(NF_STATUS_ENUM)
#undef NF_STATUS_ENUM
} nf_status;

/* Name and text of a status; "?" for a number that is none. */
const char *nf_status_name(nf_status status);
const char *nf_status_text(nf_status status);

#ifdef __cplusplus
}
#endif
#endif
