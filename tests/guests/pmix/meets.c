/* Ranks that find each other with OpenPMIx, the unmodified library:
 *   meets exchange ROUNDS   put, commit, fence with data, get of all others' cards
 *   meets later SECONDS     a get of what the other rank puts so much later, without any fence
 *   meets parts ROUNDS      fences of overlapping parts of the job, ranks late in turns, and a group
 *   meets names             publish, look up, unpublish
 *   meets gone              a get from a rank that has finalized
 *   meets events ROUNDS     what a rank says all others hear, once and in order; those of its node; those that ask later
 *   meets abort             rank 1 ends the job
 *   meets survives          rank 1 crashes, and the others hear of it and go on without it
 *   meets bereft FIRST COUNT  so many ranks from this one on are lost with their node; the others go on without them
 *   meets stay SECONDS      the same as exchange, again and again for so long
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pmix.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static pmix_proc_t me;
static uint32_t size;

#define IS(call, wanted) do { pmix_status_t is = (call); if (is != (wanted)) { \
    fprintf(stderr, "rank %u: %s:%d: %s is %s\n", me.rank, __FILE__, __LINE__, #call, PMIx_Error_string(is)); \
    PMIx_Abort(3, "not as it should be", NULL, 0); exit(3); } } while (0)
#define OK(call) IS(call, PMIX_SUCCESS)
#define CHECK(condition) do { if (!(condition)) { \
    fprintf(stderr, "rank %u: %s:%d: not true: %s\n", me.rank, __FILE__, __LINE__, #condition); \
    PMIx_Abort(3, "not as it should be", NULL, 0); exit(3); } } while (0)

static pmix_proc_t of(uint32_t rank) {
    pmix_proc_t proc;
    PMIX_LOAD_PROCID(&proc, me.nspace, rank);
    return proc;
}

static uint32_t job_number(const char *key) {
    pmix_proc_t all = of(PMIX_RANK_WILDCARD);
    pmix_value_t *value;
    OK(PMIx_Get(&all, key, NULL, 0, &value));
    CHECK(value->type == PMIX_UINT32);
    uint32_t number = value->data.uint32;
    PMIX_VALUE_RELEASE(value);
    return number;
}

static void put(pmix_scope_t scope, const char *key, uint32_t number) {
    pmix_value_t value;
    value.type = PMIX_UINT32;
    value.data.uint32 = number;
    OK(PMIx_Put(scope, key, &value));
}

static uint32_t get(uint32_t rank, const char *key) {
    pmix_proc_t proc = of(rank);
    pmix_value_t *value;
    OK(PMIx_Get(&proc, key, NULL, 0, &value));
    CHECK(value->type == PMIX_UINT32);
    uint32_t number = value->data.uint32;
    PMIX_VALUE_RELEASE(value);
    return number;
}

static void fence(const pmix_proc_t *procs, size_t count, bool collect) {
    pmix_info_t info;
    PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
    OK(PMIx_Fence(procs, count, &info, 1));
    PMIX_INFO_DESTRUCT(&info);
}

/* Keys are new in each round: the library itself keeps what it has got once. */
static void exchange(int round) {
    char key[64];
    snprintf(key, sizeof key, "card-%d", round);
    put(PMIX_GLOBAL, key, 1000 * round + me.rank);
    OK(PMIx_Commit());
    if (me.rank == round % size) usleep(20000);
    fence(NULL, 0, true);
    for (uint32_t rank = 0; rank < size; rank++) CHECK(get(rank, key) == 1000 * round + rank);
}

static void about_the_job(void) {
    pmix_value_t *value;
    pmix_proc_t all = of(PMIX_RANK_WILDCARD);
    OK(PMIx_Get(&all, PMIX_LOCAL_PEERS, NULL, 0, &value));
    char *peers = strdup(value->data.string), *next = peers, *word;
    PMIX_VALUE_RELEASE(value);
    OK(PMIx_Get(&me, PMIX_HOSTNAME, NULL, 0, &value));
    printf("rank %u of %u on %s with %s of %u nodes\n", me.rank, size, value->data.string, peers,
           job_number(PMIX_NUM_NODES));
    int is_there = 0;
    while ((word = strsep(&next, ","))) {
        pmix_value_t *other;
        pmix_proc_t proc = of(strtoul(word, NULL, 10));
        is_there |= proc.rank == me.rank;
        OK(PMIx_Get(&proc, PMIX_HOSTNAME, NULL, 0, &other));
        CHECK(!strcmp(other->data.string, value->data.string));
        PMIX_VALUE_RELEASE(other);
    }
    CHECK(is_there && job_number(PMIX_UNIV_SIZE) == size);
    PMIX_VALUE_RELEASE(value);
    free(peers);
}

/* Pairs of neighbours, each of which has another beginning, and one of the even ranks. */
static void parts(int rounds) {
    pmix_proc_t even[64];
    size_t evens = 0;
    for (uint32_t rank = 0; rank < size && evens < 64; rank += 2) even[evens++] = of(rank);
    for (int round = 0; round < rounds; round++) {
        if (me.rank == round % size) usleep(30000);
        for (int shift = 0; shift < 2; shift++) {
            uint32_t low = me.rank - (me.rank + shift) % 2;
            if (low + 1 >= size || low > me.rank) continue;
            pmix_proc_t pair[] = {of(low), of(low + 1)};
            fence(pair, 2, false);
        }
        if (me.rank % 2 == 0) fence(even, evens, true);
    }
    if (me.rank % 2 == 0) {
        pmix_info_t info, *told = NULL;
        size_t count = 0;
        bool yes = true;
        PMIX_INFO_LOAD(&info, PMIX_GROUP_ASSIGN_CONTEXT_ID, &yes, PMIX_BOOL);
        OK(PMIx_Group_construct("evens", even, evens, &info, 1, &told, &count));
        CHECK(count == 1 && PMIX_CHECK_KEY(&told[0], PMIX_GROUP_CONTEXT_ID));
        pmix_proc_t group;
        PMIX_LOAD_PROCID(&group, "evens", PMIX_RANK_WILDCARD);
        fence(&group, 1, false);
        OK(PMIx_Group_destruct("evens", NULL, 0));
    }
    fence(NULL, 0, false);
}

static void names(void) {
    pmix_pdata_t found;
    char name[64];
    snprintf(name, sizeof name, "name-%u", me.rank);
    pmix_info_t info;
    PMIX_INFO_LOAD(&info, name, "port", PMIX_STRING);
    OK(PMIx_Publish(&info, 1));
    IS(PMIx_Publish(&info, 1), PMIX_ERR_DUPLICATE_KEY);
    fence(NULL, 0, false);
    for (uint32_t rank = 0; rank < size; rank++) {
        PMIX_PDATA_CONSTRUCT(&found);
        snprintf(found.key, sizeof found.key, "name-%u", rank);
        OK(PMIx_Lookup(&found, 1, NULL, 0));
        CHECK(found.proc.rank == rank && !strcmp(found.value.data.string, "port"));
        PMIX_PDATA_DESTRUCT(&found);
    }
    fence(NULL, 0, false);
    char *mine[] = {name, NULL};
    OK(PMIx_Unpublish(mine, NULL, 0));
    PMIX_PDATA_CONSTRUCT(&found);
    snprintf(found.key, sizeof found.key, "%s", name);
    IS(PMIx_Lookup(&found, 1, NULL, 0), PMIX_ERR_NOT_FOUND);
}

/* Events: of each of three codes, how many have come; the number that each brings is how many came before it. */
enum { ALL = PMIX_EXTERNAL_ERR_BASE - 1, NEAR = ALL - 1, LATER = ALL - 2 };
static atomic_int told[3], registered;

static void hears(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                  pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *data) {
    int which = ALL - status, number = -1;
    for (size_t n = 0; n < ninfo; n++)
        if (PMIX_CHECK_KEY(&info[n], "number")) number = info[n].value.data.uint32;
    CHECK(which >= 0 && which < 3 && PMIX_CHECK_NSPACE(source->nspace, me.nspace));
    /* Who says something is told by its own library. */
    CHECK(number == atomic_fetch_add(&told[which], 1));
    if (done) done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
}

static void is_registered(pmix_status_t status, size_t id, void *data) {
    CHECK(status == PMIX_SUCCESS);
    atomic_fetch_add(&registered, 1);
}

static void until(atomic_int *what, int count) {
    for (int tries = 0; atomic_load(what) < count; tries++) {
        CHECK(tries < 3000);
        usleep(10000);
    }
    CHECK(atomic_load(what) == count);
}

static void say(pmix_status_t code, pmix_data_range_t range, uint32_t number) {
    pmix_info_t info;
    PMIX_INFO_LOAD(&info, "number", &number, PMIX_UINT32);
    OK(PMIx_Notify_event(code, &me, range, &info, 1, NULL, NULL));
    PMIX_INFO_DESTRUCT(&info);
}

static void events(int rounds) {
    pmix_status_t codes[] = {ALL, NEAR}, later = LATER;
    pmix_value_t *value;
    PMIx_Register_event_handler(codes, 2, NULL, 0, hears, is_registered, NULL);
    until(&registered, 1);
    fence(NULL, 0, false);
    if (me.rank == size - 1) {
        say(LATER, PMIX_RANGE_NAMESPACE, 0);
        for (int round = 0; round < rounds; round++) {
            say(ALL, PMIX_RANGE_GLOBAL, round);
            if (round % 2) usleep(3000);
        }
    }
    until(&told[0], rounds);
    if (me.rank == 0) say(NEAR, PMIX_RANGE_LOCAL, 0);
    pmix_proc_t first = of(0);
    OK(PMIx_Get(&first, PMIX_HOSTNAME, NULL, 0, &value));
    char host[64];
    snprintf(host, sizeof host, "%s", value->data.string);
    PMIX_VALUE_RELEASE(value);
    OK(PMIx_Get(&me, PMIX_HOSTNAME, NULL, 0, &value));
    int is_near = !strcmp(host, value->data.string);
    PMIX_VALUE_RELEASE(value);
    if (is_near) until(&told[1], 1);
    fence(NULL, 0, false);
    PMIx_Register_event_handler(&later, 1, NULL, 0, hears, is_registered, NULL);
    until(&registered, 2);
    until(&told[2], 1);
    fence(NULL, 0, false);
    CHECK(told[0] == rounds && told[1] == is_near && told[2] == 1);
}

static void mourns(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                   pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *data) {
    for (size_t n = 0; n < ninfo; n++)
        if (PMIX_CHECK_KEY(&info[n], PMIX_EVENT_AFFECTED_PROC)) CHECK(info[n].value.data.proc->rank == 1);
    atomic_fetch_add(&told[0], 1);
    if (done) done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
}

/* Without rank 1, which crashes while some of the others wait for it. */
static void survives(void) {
    pmix_status_t code = PMIX_ERR_PROC_ABORTED;
    PMIx_Register_event_handler(&code, 1, NULL, 0, mourns, is_registered, NULL);
    until(&registered, 1);
    fence(NULL, 0, false);
    if (me.rank == 1) {
        usleep(100000);
        *(volatile int *)16 = 1;
    }
    if (me.rank == 0) sleep(1);
    IS(PMIx_Fence(NULL, 0, NULL, 0), PMIX_ERR_UNREACH);
    until(&told[0], 1);
    IS(PMIx_Fence(NULL, 0, NULL, 0), PMIX_ERR_UNREACH);
    pmix_proc_t others[64];
    size_t count = 0;
    for (uint32_t rank = 0; rank < size && count < 64; rank++)
        if (rank != 1) others[count++] = of(rank);
    put(PMIX_GLOBAL, "after it", 100 + me.rank);
    OK(PMIx_Commit());
    OK(PMIx_Fence(others, count, NULL, 0));
    for (uint32_t rank = 0; rank < size; rank++)
        if (rank != 1) CHECK(get(rank, "after it") == 100 + rank);
    pmix_value_t *value;
    pmix_proc_t gone = of(1);
    IS(PMIx_Get(&gone, "after it", NULL, 0, &value), PMIX_ERR_NOT_FOUND);
    OK(PMIx_Fence(others, count, NULL, 0));
}

static uint32_t first_lost, ranks_lost;
static int is_lost(uint32_t rank) { return rank >= first_lost && rank < first_lost + ranks_lost; }

static void loses(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                  pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *data) {
    CHECK(status == PMIX_EVENT_NODE_DOWN);
    for (size_t n = 0; n < ninfo; n++)
        if (PMIX_CHECK_KEY(&info[n], PMIX_EVENT_AFFECTED_PROC)) CHECK(is_lost(info[n].value.data.proc->rank));
    atomic_fetch_add(&told[0], 1);
    if (done) done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
}

/* A connection of each rank with the first lost one, on this node of the job, which says a word and then nothing. */
static int talk(uint32_t node) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(4000)};
    address.sin_addr.s_addr = htonl(0x0a800001 + node);
    int end = socket(AF_INET, SOCK_STREAM, 0);
    char word;
    if (me.rank == first_lost) {
        CHECK(!bind(end, (struct sockaddr *)&address, sizeof address) && !listen(end, 64));
        fence(NULL, 0, false);
        for (uint32_t others = 1; others < size; others++) CHECK(write(accept(end, NULL, NULL), "!", 1) == 1);
        return end;
    }
    fence(NULL, 0, false);
    CHECK(!connect(end, (struct sockaddr *)&address, sizeof address));
    CHECK(read(end, &word, 1) == 1 && word == '!');
    return end;
}

static void bereft(void) {
    pmix_status_t code = PMIX_EVENT_NODE_DOWN;
    PMIx_Register_event_handler(&code, 1, NULL, 0, loses, is_registered, NULL);
    until(&registered, 1);
    int end = talk(first_lost / ranks_lost);
    put(PMIX_GLOBAL, "before it", 50 + me.rank);
    OK(PMIx_Commit());
    fence(NULL, 0, true);
    /* Who is lost while others are still on their way out of a fence may take what they need for it along. */
    put(PMIX_GLOBAL, "out of it", 1);
    OK(PMIx_Commit());
    if (me.rank == (first_lost == 0 ? ranks_lost : 0)) {
        for (uint32_t rank = 0; rank < size; rank++) CHECK(get(rank, "out of it") == 1);
        puts("now");
    }
    if (is_lost(me.rank)) sleep(1000);
    char word;
    pmix_value_t *value;
    pmix_proc_t gone = of(first_lost);
    if (me.rank % 3 == 0) IS(PMIx_Fence(NULL, 0, NULL, 0), PMIX_ERR_UNREACH);
    if (me.rank % 3 == 1) IS(PMIx_Get(&gone, "after it", NULL, 0, &value), PMIX_ERR_UNREACH);
    if (me.rank % 3 == 2) CHECK(read(end, &word, 1) == -1 && errno == ETIMEDOUT);
    until(&told[0], (int)ranks_lost);
    IS(PMIx_Fence(NULL, 0, NULL, 0), PMIX_ERR_UNREACH);
    IS(PMIx_Get(&gone, "after it", NULL, 0, &value), PMIX_ERR_UNREACH);
    pmix_proc_t others[64];
    size_t count = 0;
    for (uint32_t rank = 0; rank < size && count < 64; rank++)
        if (!is_lost(rank)) others[count++] = of(rank);
    put(PMIX_GLOBAL, "after it", 100 + me.rank);
    OK(PMIx_Commit());
    OK(PMIx_Fence(others, count, NULL, 0));
    for (uint32_t rank = 0; rank < size; rank++) {
        CHECK(get(rank, "before it") == 50 + rank);
        if (!is_lost(rank)) CHECK(get(rank, "after it") == 100 + rank);
    }
    OK(PMIx_Fence(others, count, NULL, 0));
}

int main(int count, char **words) {
    const char *what = count > 1 ? words[1] : "exchange";
    int number = count > 2 ? atoi(words[2]) : 3;
    setvbuf(stdout, NULL, _IOLBF, 0);
    OK(PMIx_Init(&me, NULL, 0));
    size = job_number(PMIX_JOB_SIZE);
    if (!strcmp(what, "exchange")) {
        about_the_job();
        for (int round = 0; round < number; round++) exchange(round);
    } else if (!strcmp(what, "later")) {
        if (me.rank == 0) {
            sleep(number);
            put(PMIX_GLOBAL, "later", 77);
            OK(PMIx_Commit());
        } else {
            pmix_info_t info;
            pmix_value_t *value;
            pmix_proc_t first = of(0);
            int short_time = 1;
            PMIX_INFO_LOAD(&info, PMIX_TIMEOUT, &short_time, PMIX_INT);
            IS(PMIx_Get(&first, "never", &info, 1, &value), PMIX_ERR_TIMEOUT);
            CHECK(get(0, "later") == 77);
        }
        fence(NULL, 0, false);
    } else if (!strcmp(what, "parts")) {
        parts(number);
    } else if (!strcmp(what, "names")) {
        names();
    } else if (!strcmp(what, "events")) {
        events(number);
    } else if (!strcmp(what, "gone")) {
        if (me.rank > 0) {
            pmix_value_t *value;
            pmix_proc_t first = of(0);
            IS(PMIx_Get(&first, "never", NULL, 0, &value), PMIX_ERR_NOT_FOUND);
        }
    } else if (!strcmp(what, "abort")) {
        if (me.rank == 1) PMIx_Abort(7, "enough of it", NULL, 0);
        fence(NULL, 0, false);
    } else if (!strcmp(what, "survives")) {
        survives();
    } else if (!strcmp(what, "bereft")) {
        first_lost = (uint32_t)number;
        ranks_lost = count > 3 ? (uint32_t)atoi(words[3]) : 1;
        bereft();
    } else if (!strcmp(what, "stay")) {
        /* As the first rank's clock says, which tells the others whether there is another round. */
        time_t end = time(NULL) + number;
        for (int round = 0, goes_on = 1; goes_on; round++) {
            char key[64];
            exchange(round);
            parts(1);
            snprintf(key, sizeof key, "more-%d", round);
            if (me.rank == 0) {
                put(PMIX_GLOBAL, key, time(NULL) < end);
                OK(PMIx_Commit());
            }
            goes_on = get(0, key);
        }
        fence(NULL, 0, false);
    }
    OK(PMIx_Finalize(NULL, 0));
    printf("rank %u: done\n", me.rank);
    return 0;
}
