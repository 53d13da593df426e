/* One SQLite database that all ranks write to: `sqlite_ranks write FILE ROWS`, each row in a transaction of its own;
   `sqlite_ranks check FILE` says whether all is well and what is in it. */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static sqlite3 *database;
static int rank;

static int show(void *unused, int count, char **values, char **names) {
    for (int i = 0; i < count; i++) printf("%s %s\n", names[i], values[i]);
    return 0;
}

static void make(const char *statement) {
    char *message = NULL;
    int result = sqlite3_exec(database, statement, show, NULL, &message);
    if (result == SQLITE_OK) return;
    printf("rank %d: %s: %d, %s\n", rank, statement, sqlite3_extended_errcode(database), message);
    fflush(stdout);
    exit(1);
}

int main(int argc, char **argv) {
    const char *of = getenv("COPPICE_RANK");
    rank = of ? atoi(of) : 0;
    if (argc < 3 || sqlite3_open(argv[2], &database) != SQLITE_OK) return 1;
    sqlite3_busy_timeout(database, 120000);
    if (!strcmp(argv[1], "check")) {
        make("PRAGMA integrity_check");
        make("PRAGMA journal_mode");
        make("SELECT count(*) AS rows, count(DISTINCT rank * 1000000 + number) AS different, sum(number) AS sum FROM rows");
        make("SELECT total FROM totals");
        return 0;
    }
    char statement[128];
    make("CREATE TABLE IF NOT EXISTS rows (rank INTEGER, number INTEGER)");
    make("CREATE TABLE IF NOT EXISTS totals (id INTEGER PRIMARY KEY, total INTEGER)");
    make("INSERT OR IGNORE INTO totals VALUES (1, 0)");
    for (int number = 0; number < atoi(argv[3]); number++) {
        make("BEGIN IMMEDIATE");
        snprintf(statement, sizeof statement, "INSERT INTO rows VALUES (%d, %d)", rank, number);
        make(statement);
        make("UPDATE totals SET total = total + 1");
        make("COMMIT");
    }
    return 0;
}
