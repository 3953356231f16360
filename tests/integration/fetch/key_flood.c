/* A TLS 1.3 server that answers every request with new keys, without end, as fast as it can. Argument: a PEM file with
   certificate and key. It prints its port. OpenSSL's functions are declared here, so that its headers are not needed. */

#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

const void *TLS_server_method(void);
void *SSL_CTX_new(const void *method);
int SSL_CTX_use_certificate_chain_file(void *context, const char *file);
int SSL_CTX_use_PrivateKey_file(void *context, const char *file, int type);
void *SSL_new(void *context);
int SSL_set_fd(void *ssl, int fd);
int SSL_accept(void *ssl);
int SSL_read(void *ssl, void *buffer, int size);
int SSL_key_update(void *ssl, int type);
int SSL_do_handshake(void *ssl);

int main(int count, char **arguments) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (count != 2 || bind(listener, (void *)&address, size) || listen(listener, 16)) return 1;
    getsockname(listener, (void *)&address, &size);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGCHLD, SIG_IGN);
    alarm(120); /* should nobody end it */
    void *context = SSL_CTX_new(TLS_server_method());
    SSL_CTX_use_certificate_chain_file(context, arguments[1]);
    SSL_CTX_use_PrivateKey_file(context, arguments[1], 1);
    for (;;) {
        int client = accept(listener, NULL, NULL);
        if (fork()) {
            close(client);
            continue;
        }
        alarm(120);
        char request[65536];
        void *ssl = SSL_new(context);
        SSL_set_fd(ssl, client);
        if (SSL_accept(ssl) == 1 && SSL_read(ssl, request, sizeof request) > 0)
            while (SSL_key_update(ssl, 0) == 1 && SSL_do_handshake(ssl) == 1) {}
        exit(0);
    }
}
