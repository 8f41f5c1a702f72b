/* SPDX-License-Identifier: Apache-2.0 */
/* power_cut DIR FLAGS: the file system of DIR stops at once, as if the power had gone. FLAGS: 2
 * what its own log has not written is lost; 1 the log is written first; 0 everything is. */
#include <fcntl.h>
#include <linux/types.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>

/* FS_IOC_SHUTDOWN, which not every <linux/fs.h> has. */
#define SHUTDOWN _IOR('X', 125, __u32)

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: power_cut DIR FLAGS\n");
        return 2;
    }
    __u32 flags = (__u32)strtoul(argv[2], NULL, 10);
    int fd = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || ioctl(fd, SHUTDOWN, &flags) < 0) {
        perror(argv[1]);
        return 1;
    }
    return 0;
}
