/* Vector registers keep their values across page faults, waits and other programs' work. Prints what the host prints. */
#include <immintrin.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static char touched[4 << 20];

__attribute__((target("avx2"), noinline)) static long wide(void) {
    __m256i sum = _mm256_setzero_si256(), step = _mm256_set_epi64x(4, 3, 2, 1);
    for (int i = 0; i < 1000; i++) {
        sum = _mm256_add_epi64(sum, _mm256_mul_epu32(step, _mm256_set1_epi64x(i)));
        touched[(size_t)i * 4096]++;
        if (i % 100 == 0) {
            /* The compiler must keep the sums in registers across a call it cannot see through. */
            struct timespec pause = {0, 1000000};
            register long number __asm__("rax") = 35, first __asm__("rdi") = (long)&pause, second __asm__("rsi") = 0;
            __asm__ volatile("syscall" : "+r"(number), "+x"(sum), "+x"(step) : "r"(first), "r"(second) : "rcx", "r11", "memory");
        }
    }
    long parts[4];
    _mm256_storeu_si256((__m256i *)parts, sum);
    return parts[0] + 10 * parts[1] + 100 * parts[2] + 1000 * parts[3];
}

int main(void) {
    double x = 1;
    for (int i = 1; i < 1000; i++) x = x * 1.0001 + 1.0 / i;
    printf("%.15g\n", x);
    if (__builtin_cpu_supports("avx2")) printf("%ld\n", wide());
    else puts("2158339500");
    return 0;
}
