/* A network of our own for tests of the guard, loaded by LD_PRELOAD into the process that fetches.

   getaddrinfo: the name says what it resolves to, and changes its answer with every lookup. In
   `any.08080808-7f000001.answers.test` the first lookup gives 8.8.8.8, the second 127.0.0.1, the third 8.8.8.8 again.
   `08080808_7f000001` is one answer with both. Eight hex digits are IPv4, thirty-two IPv6;
   `7f000001x1000` is the same address a thousand times. Names that end in `.silent` get no answer for NETWORK_SILENCE
   seconds, and then that there is none.

   connect: every address that a socket is to be connected to is appended to the file NETWORK_LOG. What is outside (the
   IPv4 networks 8.8.8.0/24 and 93.184.0.0/16) is led to NETWORK_PORT on loopback, where a test plays the Internet. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define NAMES 4096
static const char zone[] = ".answers.test";
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct { char name[300]; unsigned lookups; } known[NAMES];

static unsigned lookups_before(const char *name) {
    unsigned place = 5381, count;
    for (const char *c = name; *c; c++) place = place * 33 + (unsigned char)*c;
    pthread_mutex_lock(&lock);
    while (known[place % NAMES].name[0] && strcmp(known[place % NAMES].name, name)) place++;
    snprintf(known[place % NAMES].name, sizeof known[0].name, "%s", name);
    count = known[place % NAMES].lookups++;
    pthread_mutex_unlock(&lock);
    return count;
}

static void as_literal(const char *hex, size_t length, char *literal, size_t size) {
    unsigned char raw[16];
    for (size_t i = 0; i < length / 2; i++) sscanf(hex + 2 * i, "%2hhx", &raw[i]);
    inet_ntop(length == 32 ? AF_INET6 : AF_INET, raw, literal, size);
}

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **found) {
    static int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    if (!real) real = dlsym(RTLD_NEXT, "getaddrinfo");
    size_t length = node ? strlen(node) : 0, tail = sizeof zone - 1;
    if (length > 7 && !strcmp(node + length - 7, ".silent")) {
        sleep(atoi(getenv("NETWORK_SILENCE")));
        return EAI_AGAIN;
    }
    if (length <= tail || strcmp(node + length - tail, zone)) return real(node, service, hints, found);

    char name[256];
    snprintf(name, sizeof name, "%.*s", (int)(length - tail), node);
    char *answers = strrchr(name, '.') ? strrchr(name, '.') + 1 : name;
    unsigned count = 1, wanted;
    for (char *c = answers; *c; c++) count += *c == '-';
    int family = hints ? hints->ai_family : AF_UNSPEC;
    wanted = lookups_before(node) % count;
    char *rest, *answer = strtok_r(answers, "-", &rest);
    while (wanted--) answer = strtok_r(NULL, "-", &rest);

    struct addrinfo wish = {.ai_family = family, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST}, **last = found;
    *found = NULL;
    for (char *inner, *hex = strtok_r(answer, "_", &inner); hex; hex = strtok_r(NULL, "_", &inner)) {
        char literal[INET6_ADDRSTRLEN];
        char *times = strchr(hex, 'x');
        as_literal(hex, times ? (size_t)(times - hex) : strlen(hex), literal, sizeof literal);
        for (int count = times ? atoi(times + 1) : 1; count > 0; count--)
            if (real(literal, service, &wish, last) == 0) last = &(*last)->ai_next;
    }
    return *found ? 0 : EAI_NONAME;
}

int connect(int fd, const struct sockaddr *address, socklen_t length) {
    static int (*real)(int, const struct sockaddr *, socklen_t);
    if (!real) real = dlsym(RTLD_NEXT, "connect");
    struct sockaddr_in led = {.sin_family = AF_INET};
    char literal[INET6_ADDRSTRLEN] = "", line[128];
    int port = 0;
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const void *)address;
        inet_ntop(AF_INET, &v4->sin_addr, literal, sizeof literal);
        port = ntohs(v4->sin_port);
        if (!strncmp(literal, "8.8.8.", 6) || !strncmp(literal, "93.184.", 7)) {
            led.sin_port = htons(atoi(getenv("NETWORK_PORT")));
            led.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
            address = (const void *)&led;
            length = sizeof led;
        }
    } else if (address->sa_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const void *)address;
        inet_ntop(AF_INET6, &v6->sin6_addr, literal, sizeof literal);
        port = ntohs(v6->sin6_port);
    }
    if (*literal) {
        int log = open(getenv("NETWORK_LOG"), O_WRONLY | O_APPEND | O_CREAT, 0600);
        int size = snprintf(line, sizeof line, "%s %d\n", literal, port);
        if (log < 0 || write(log, line, size) != size) abort();
        close(log);
    }
    return real(fd, address, length);
}
