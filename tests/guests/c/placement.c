/* Which cores a rank has and where its threads run. Arguments: threads, of which the first is one. Prints one line:
   `rank R of N cores LIST threads PER-CORE... node C`: its cores as sched_getaffinity(2) has them, how many of its threads
   are on each of them, and the cores that the C library says the node has. A thread that is seen on two cores, or on one
   that is not its own, is an error. */
#define _GNU_SOURCE
#include "team.h"
#include <sched.h>
#include <sys/syscall.h>

static cpu_set_t own;
static pthread_barrier_t all_here;
static int on_core[CPU_SETSIZE];

static unsigned core_now(void) {
    unsigned core = ~0u;
    CHECK(syscall(SYS_getcpu, &core, NULL, NULL) == 0);
    CHECK(core < CPU_SETSIZE && CPU_ISSET(core, &own));
    return core;
}

static void *stay(void *unused) {
    unsigned first = core_now();
    __atomic_add_fetch(&on_core[first], 1, __ATOMIC_SEQ_CST);
    pthread_barrier_wait(&all_here);
    for (int i = 0; i < 100; i++) {
        CHECK(core_now() == first);
        sched_yield();
    }
    return unused;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 1;
    CHECK(sched_getaffinity(0, sizeof own, &own) == 0);
    GIVES(0, pthread_barrier_init(&all_here, NULL, (unsigned)threads));
    pthread_t others[512];
    for (int i = 1; i < threads; i++) others[i] = begin(stay, i);
    stay(NULL);
    for (int i = 1; i < threads; i++) finish(others[i]);
    printf("rank %s of %s cores", getenv("COPPICE_RANK"), getenv("COPPICE_SIZE"));
    for (int core = 0, so_far = 0; core < CPU_SETSIZE; core++) {
        if (CPU_ISSET(core, &own)) printf("%c%d", so_far++ ? ',' : ' ', core);
    }
    printf(" threads");
    for (int core = 0; core < CPU_SETSIZE; core++) {
        if (CPU_ISSET(core, &own)) printf(" %d", on_core[core]);
    }
    printf(" node %ld\n", sysconf(_SC_NPROCESSORS_ONLN));
    return 0;
}
