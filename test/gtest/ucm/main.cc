// SPDX-License-Identifier: BSD-3-Clause
#include "scenario.h"

int main(int argc, char **argv)
{
    return ucx_ib_dmabuf::test::scenario_main(argc, argv);
}
