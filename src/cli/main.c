/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cli/beanstalkd.h"
#include "cli/commands.h"

int main(int argc, char **argv)
{
    int status =
        beanstalkd_called(argv[0]) ? beanstalkd_line(argc, argv) : command_line(argc, argv);

    /* Output that did not reach its file (a full disk, a closed pipe) is a failure, not a success.
     */
    if (fflush(stdout) != 0 || ferror(stdout)) {
        perror("holdfast: standard output");
        return EXIT_FAILED;
    }
    return status;
}
