/* Threads that take a lock the kernel hands on, give it up and end at once, while others ask who has it: nobody waits for
   ever for one that did right, and nobody is inside together with another. Arguments: threads of a round, rounds. */
#define _GNU_SOURCE
#include "team.h"

static pthread_mutex_t mutex;
static int owner;
static long inside;

static void *goes_through(void *number) {
    int me = (int)(long)number + 1;
    GIVES(0, pthread_mutex_lock(&mutex));
    CHECK(owner == 0);
    owner = me;
    inside++;
    CHECK(owner == me);
    owner = 0;
    GIVES(0, pthread_mutex_unlock(&mutex));
    return NULL;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 16, rounds = argc > 2 ? atoi(argv[2]) : 100;
    pthread_mutexattr_t kind;
    GIVES(0, pthread_mutexattr_init(&kind));
    GIVES(0, pthread_mutexattr_setprotocol(&kind, PTHREAD_PRIO_INHERIT));
    GIVES(0, pthread_mutex_init(&mutex, &kind));
    for (int i = 0; i < rounds; i++) team(threads, goes_through);
    printf("inside %ld times\n", inside);
    return 0;
}
