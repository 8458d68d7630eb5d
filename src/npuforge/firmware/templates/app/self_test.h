/* The networks of the project against inputs stored with them and the outputs the host computed. */
#ifndef SELF_TEST_H
#define SELF_TEST_H

#include "networks.h"

/* Where a network's outputs differ first: number of the output and byte in it. */
typedef struct self_test_difference {
    uint32_t output;
    uint32_t byte;
} self_test_difference;

/* Run network `model` on its stored input. NF_E_WRONG_ANSWER: an output byte differs. */
nf_status self_test(uint32_t model, uint32_t timeout_us, self_test_difference *difference);

#endif
