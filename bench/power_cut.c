/* For bench/redis_losses.py: notes, beside each file, how much of it had been synced to the disk.
 *
 * Loaded into redis-server with LD_PRELOAD. After a kill -9 the bench cuts the append-only file to that length: what a
 * power cut would have left, at worst, of a file that is only ever appended to. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int noted(int fd, const char *name) {
    char link[64], path[4096], text[32];
    struct stat before;
    int (*sync_it)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    /* The length before: what is appended meanwhile may not be part of it. */
    int known = fstat(fd, &before) == 0 && S_ISREG(before.st_mode);
    int result = sync_it(fd);
    if (!known || result != 0) return result;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 16);
    if (length <= 0) return result;
    memcpy(path + length, ".synced", 8);
    int note = open(path, O_WRONLY | O_CREAT, 0600);
    if (note >= 0) {
        snprintf(text, sizeof text, "%020lld", (long long)before.st_size);
        if (pwrite(note, text, 20, 0) != 20) perror("power_cut");
        close(note);
    }
    return result;
}

int fdatasync(int fd) { return noted(fd, "fdatasync"); }
int fsync(int fd) { return noted(fd, "fsync"); }
