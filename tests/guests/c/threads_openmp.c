/* OpenMP: loops with every schedule, reductions, tasks, sections, nested teams, locks, critical sections, barriers.
   Argument: threads of a team (4). What is printed does not depend on who runs when. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT 20000

static double values[COUNT];

static long fibonacci(int n) {
    long a, b;
    if (n < 2) return n;
    if (n < 8) return fibonacci(n - 1) + fibonacci(n - 2);
#pragma omp task shared(a)
    a = fibonacci(n - 1);
#pragma omp task shared(b)
    b = fibonacci(n - 2);
#pragma omp taskwait
    return a + b;
}

static void loops(void) {
    long even = 0, sum = 0, most = 0, product = 1;
#pragma omp parallel for schedule(static, 7)
    for (int i = 0; i < COUNT; i++) values[i] = i % 1000;
#pragma omp parallel for schedule(dynamic, 13) reduction(+ : even)
    for (int i = 0; i < COUNT; i++) even += (long)values[i] % 2 == 0;
#pragma omp parallel for schedule(guided) reduction(+ : sum) reduction(max : most)
    for (int i = 0; i < COUNT; i++) {
        sum += (long)values[i];
        if (values[i] > most) most = (long)values[i];
    }
#pragma omp parallel for schedule(runtime) collapse(2) reduction(* : product)
    for (int i = 1; i <= 4; i++)
        for (int j = 1; j <= 3; j++) product *= i + j;
    printf("even %ld, sum %ld, most %ld, product %ld\n", even, sum, most, product);
    char order[64] = "";
#pragma omp parallel for ordered schedule(dynamic)
    for (int i = 0; i < 20; i++) {
#pragma omp ordered
        snprintf(order + strlen(order), 4, "%d ", i % 10);
    }
    printf("ordered %s\n", order);
}

static void sections_and_singles(int threads) {
    int seen[64] = {0}, singles = 0, masters = 0, critical = 0, atomic = 0, private = 5, parts[3] = {0};
#pragma omp parallel num_threads(threads) firstprivate(private)
    {
        seen[omp_get_thread_num()]++;
        private += omp_get_thread_num();
#pragma omp barrier
#pragma omp single
        singles++;
#pragma omp master
        masters++;
        for (int i = 0; i < 1000; i++) {
#pragma omp critical
            critical++;
#pragma omp atomic
            atomic++;
        }
#pragma omp sections
        {
#pragma omp section
            parts[0] = 1;
#pragma omp section
            parts[1] = 2;
#pragma omp section
            parts[2] = 3;
        }
    }
    int members = 0;
    for (int i = 0; i < 64; i++) members += seen[i];
    printf("members %d, singles %d, masters %d, critical %d, atomic %d, private %d, sections %d\n", members, singles,
           masters, critical, atomic, private, parts[0] + parts[1] + parts[2]);
}

static void nested(int threads) {
    int inner[8][8] = {{0}}, sum = 0;
    omp_set_max_active_levels(2);
#pragma omp parallel num_threads(threads)
    {
        int outer = omp_get_thread_num();
#pragma omp parallel num_threads(3)
        inner[outer % 8][omp_get_thread_num()] = omp_get_level() * (outer + 1);
    }
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++) sum += inner[i][j];
    printf("nested %d\n", sum);
}

static void tasks(void) {
    long result = 0, done = 0;
    int chain = 0;
#pragma omp parallel
#pragma omp single
    result = fibonacci(20);
#pragma omp parallel
#pragma omp single
    {
#pragma omp taskgroup
        {
#pragma omp taskloop grainsize(5)
            for (int i = 0; i < 200; i++) {
#pragma omp atomic
                done += i;
            }
        }
        for (int i = 0; i < 10; i++) {
#pragma omp task depend(inout : chain)
            chain = chain * 2 + 1;
        }
    }
    printf("tasks %ld, loop %ld, chain %d\n", result, done, chain);
}

static void locks(void) {
    omp_lock_t lock;
    omp_nest_lock_t nest;
    long count = 0;
    omp_init_lock(&lock);
    omp_init_nest_lock(&nest);
#pragma omp parallel
    for (int i = 0; i < 200; i++) {
#pragma omp masked
        {}
        omp_set_lock(&lock);
        omp_set_nest_lock(&nest);
        omp_set_nest_lock(&nest);
        count++;
        omp_unset_nest_lock(&nest);
        omp_unset_nest_lock(&nest);
        omp_unset_lock(&lock);
    }
    omp_destroy_lock(&lock);
    omp_destroy_nest_lock(&nest);
    printf("locks %ld\n", count);
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 4;
    omp_set_dynamic(0);
    omp_set_num_threads(threads);
    if (omp_get_num_procs() < 1 || omp_get_max_threads() != threads) return 1;
    loops();
    sections_and_singles(threads);
    nested(threads);
    tasks();
    locks();
    /* Teams of every size, made and let go. */
    long sizes = 0;
    for (int size = 1; size <= 2 * threads; size++) {
#pragma omp parallel num_threads(size) reduction(+ : sizes)
        sizes += omp_get_num_threads();
    }
    printf("sizes %ld\n", sizes);
    double start = omp_get_wtime();
    printf("all well %d\n", omp_get_wtime() >= start);
    return 0;
}
