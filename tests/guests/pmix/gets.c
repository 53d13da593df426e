/* What a PMIx_Get costs, in units of the time-stamp counter; under `-icount shift=0` that is instructions. Two ranks of
   one node: rank 0 gets what rank 1 has put, each time from the server, and then COUNT (200) times from what the library
   keeps. The library's own work, and that of its thread which speaks with the server, is part of it. */
#include <pmix.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <x86intrin.h>

#define OK(call) do { pmix_status_t is = (call); if (is != PMIX_SUCCESS) { \
    fprintf(stderr, "%s:%d: %s is %s\n", __FILE__, __LINE__, #call, PMIx_Error_string(is)); \
    PMIx_Abort(3, "not as it should be", NULL, 0); exit(3); } } while (0)

static double get(const pmix_proc_t *of, const pmix_info_t *info, size_t infos, int count) {
    uint64_t begun = __rdtsc();
    for (int i = 0; i < count; i++) {
        pmix_value_t *value;
        OK(PMIx_Get(of, "card", info, infos, &value));
        if (value->data.uint32 != 77) exit(4);
        PMIX_VALUE_RELEASE(value);
    }
    return (double)(__rdtsc() - begun) / count;
}

int main(int argc, char **argv) {
    int count = argc > 1 ? atoi(argv[1]) : 200;
    pmix_proc_t me, other;
    pmix_value_t value = {.type = PMIX_UINT32, .data.uint32 = 77};
    pmix_info_t anew;
    bool yes = true;
    OK(PMIx_Init(&me, NULL, 0));
    OK(PMIx_Put(PMIX_GLOBAL, "card", &value));
    OK(PMIx_Commit());
    OK(PMIx_Fence(NULL, 0, NULL, 0));
    if (me.rank == 0) {
        PMIX_LOAD_PROCID(&other, me.nspace, 1);
        PMIX_INFO_LOAD(&anew, PMIX_GET_REFRESH_CACHE, &yes, PMIX_BOOL);
        get(&other, &anew, 1, 1);
        printf("get-answered %.0f\n", get(&other, &anew, 1, count));
        printf("get-kept %.0f\n", get(&other, NULL, 0, count));
    }
    OK(PMIx_Fence(NULL, 0, NULL, 0));
    OK(PMIx_Finalize(NULL, 0));
    return 0;
}
