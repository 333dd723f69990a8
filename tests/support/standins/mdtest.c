/* A stand-in for mdtest 4.0.0, for tests only: README.md says what it is, what it can do and what it cannot.
 *
 * It creates, looks at, renames and removes real files and directories, and takes real times. What it prints has the
 * form of what mdtest 4.0.0 prints: the names of places in its source at the ends of messages are part of that form.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <mpi.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

enum row { DIR_CREATE, DIR_STAT, DIR_RENAME, DIR_REMOVE, CREATE, STAT, READ, REMOVE, TREE_CREATE, TREE_REMOVE, ROWS };
static const char *const TITLES[ROWS] = {
    "Directory creation", "Directory stat", "Directory rename", "Directory removal", "File creation",
    "File stat", "File read", "File removal", "Tree creation", "Tree removal"};

static const char *directory = "./out", *fault = "", *ranks;
static int dirs, files, creates, stats, reads, removes, renames, unique, dummy, rank, tasks, mine;
static long long items, repetitions = 1, shift, to_write, to_read;
static MPI_Comm world;
static char *buffer;

static int faulty(const char *name) { return strcmp(fault, name) == 0; }

/* Prints at once, and in one piece, whatever other ranks print. */
__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    vprintf(format, values);
    va_end(values);
    fflush(stdout);
}

static const char *now(void)
{
    static char text[64];
    time_t seconds = time(NULL);
    strftime(text, sizeof text, "%m/%d/%Y %H:%M:%S", localtime(&seconds));
    return text;
}

static void parse(int argc, char **argv)
{
    static const char FLAGS[] = "DFCTErRu";
    int *const flags[] = {&dirs, &files, &creates, &stats, &reads, &removes, &renames, &unique}, wrong = 0;
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i], *at = strchr(FLAGS, word[1]);
        int letter = word[0] == '-' && word[1] && !word[2] ? word[1] : 0;
        char *value = letter && strchr("adeinNw", letter) && i + 1 < argc ? argv[++i] : NULL;
        if (strncmp(word, "--saveRankPerformanceDetails=", 29) == 0)
            ranks = word + 29;
        else if (value && letter == 'a')
            dummy = strcmp(value, "DUMMY") == 0;
        else if (value && letter == 'd')
            directory = value;
        else if (value)
            *(letter == 'e' ? &to_read : letter == 'i' ? &repetitions : letter == 'n' ? &items
              : letter == 'N' ? &shift : &to_write) = atoll(value);
        else if (letter && at && letter != 'R')
            *flags[at - FLAGS] = 1;
        else
            wrong = 1;
        if (wrong) /* and of all that follows, too */
            say("Error invalid argument: %s\n", argv[i]);
    }
    if (wrong) {
        say("Invalid options\nSynopsis %s\n", argv[0]);
        exit(1);
    }
    if (!creates && !stats && !reads && !removes)
        creates = stats = reads = removes = renames = 1;
    if (!dirs && !files)
        dirs = files = 1;
}

static void header(int argc, char **argv, int nodes)
{
    if (dummy)
        say("WARNING: DUMMY initialized\n");
    printf("-- started at %s --\n\nmdtest-4.0.0 was launched with %d total task(s) on %d node(s)\n", now(), tasks, nodes);
    printf("Command line used: %s", argv[0]);
    for (int i = 1; i < argc; i++)
        printf(" '%s'", argv[i]);
    say("\n");
}

static void file_system(void)
{
    struct statvfs fs = {0};
    char parent[PATH_MAX];
    char *slash = strrchr(strcpy(parent, directory), '/');
    if (slash)
        slash[slash == parent] = 0;
    if (!dummy && statvfs(slash ? parent : ".", &fs) != 0) {
        perror("POSIX couldn't call statvfs");
        say("WARNING: Backend returned error during statfs\n");
        return;
    }
    double bytes = (double)fs.f_blocks * fs.f_frsize / (1 << 30);
    printf("Path                : %s\nFS                  : %.1f %s   Used FS: %2.1f%%   ", directory,
           bytes > 1024 ? bytes / 1024 : bytes, bytes > 1024 ? "TiB" : "GiB",
           dummy ? 0 : (1 - (double)fs.f_bfree / fs.f_blocks) * 100);
    printf("Inodes: %.1f Mi   Used Inodes: %2.1f%%\n", fs.f_files / 1048576.0,
           dummy ? 0 : (1 - (double)fs.f_ffree / fs.f_files) * 100);
}

/* The tree that is this rank's after `turns` shifts, and in it what the rank before it in turn has made. */
static void tree(char *path, const char *top, long long turns)
{
    snprintf(path, PATH_MAX, unique ? "%s/mdtest_tree.%lld.0" : "%s/mdtest_tree.0", top, (rank + turns * shift) % tasks);
}

static void item(char *path, const char *top, const char *kind, int turns, long long number)
{
    tree(path, top, turns + 1);
    size_t length = strlen(path);
    snprintf(path + length, PATH_MAX - length, "/%s.mdtest.%lld.%lld", kind, (rank + turns * shift) % tasks, number);
}

static int open_file(const char *path, int flags, int fails)
{
    int fd = fails ? -1 : open(path, flags, 0664);
    if (fails)
        errno = EIO;
    if (fd >= 0)
        return fd;
    if (flags & O_CREAT)
        say("ERROR: open64(\"%s\", %d, %#o) failed. Error: %s, (aiori-POSIX.c:569)\n", path, flags, 0664, strerror(errno));
    else
        say("ERROR: open64(\"%s\", %d) failed: %s, (aiori-POSIX.c:641)\n", path, flags, strerror(errno));
    usleep(200000); /* hydra loses what it has not read before an end with violence */
    MPI_Abort(MPI_COMM_WORLD, -1);
    _exit(255);
}

static void do_one(enum row what, const char *path, const char *last, int struck)
{
    struct stat found;
    int fd;
    if (struck && faulty("kill_rank"))
        usleep(200000), raise(SIGKILL);
    if ((rank == tasks - 1 && faulty("slow_rank")) || (!mine && faulty("slow_node")))
        usleep(10000);
    switch (what) {
    case DIR_CREATE:
        if (mkdir(path, 0755) != 0)
            say("WARNING: unable to create directory %s\n", path);
        break;
    case DIR_STAT:
    case STAT:
        if (stat(path, &found) != 0)
            say("WARNING: unable to stat %s %s\n", what == STAT ? "file" : "directory", path);
        break;
    case DIR_RENAME:
        if (rename(path, last) != 0)
            say("WARNING: unable to rename directory %s\n", path);
        break;
    case DIR_REMOVE:
        if (rmdir(path) != 0)
            say("WARNING: unable to remove directory %s\n", path);
        break;
    case CREATE:
        fd = open_file(path, O_CREAT | O_RDWR, struck && faulty("io_error"));
        if (to_write && write(fd, buffer, to_write) != to_write)
            say("WARNING: unable to write file %s\n", path);
        close(fd);
        break;
    case READ:
        fd = open_file(path, O_RDWR, 0); /* as mdtest, which hands over the wrong flag */
        if (to_read && read(fd, buffer, to_read) != to_read)
            say("WARNING: unable to read file %s\n", path);
        close(fd);
        break;
    default:
        if (unlink(path) != 0)
            say("WARNING: [RANK %03d]: unlink() of file \"%s\" failed\n", rank, path);
    }
}

/* One phase: the same to all items of a rank. Gives operations per second of all ranks, by the slowest. */
static double phase(enum row what, const char *top, int turns, double *own)
{
    char path[PATH_MAX], last[PATH_MAX] = "", spare[PATH_MAX + 8];
    MPI_Barrier(world);
    double start = MPI_Wtime();
    for (long long i = 0; i < items && !dummy; i++) {
        item(path, top, what <= DIR_REMOVE ? "dir" : "file", turns, i);
        if (i == 0)
            snprintf(spare, sizeof spare, "%s-XX", path);
        /* renamed in a circle: in the end all names are there again */
        do_one(what, what == DIR_RENAME && i && i == items - 1 ? spare : path, i ? last : spare, rank == tasks - 1 && i == 1);
        strcpy(last, path);
    }
    *own = MPI_Wtime() - start;
    MPI_Barrier(world);
    double rate = items / (MPI_Wtime() - start);
    MPI_Allreduce(MPI_IN_PLACE, &rate, 1, MPI_DOUBLE, MPI_MIN, world);
    return rate * tasks;
}

static double make_tree(const char *top)
{
    char path[PATH_MAX];
    if (rank == 0 && !dummy && access(top, F_OK) != 0 && mkdir(top, 0755) != 0)
        say("WARNING: Unable to create test directory %s\n", top);
    MPI_Barrier(world);
    double start = MPI_Wtime();
    tree(path, top, 0);
    if (unique || rank == 0)
        if ((!dummy && mkdir(path, 0755) != 0) || faulty("stale_warning"))
            say("WARNING: unable to create tree directory '%s/'\n", path);
    MPI_Barrier(world);
    return 1 / (MPI_Wtime() - start);
}

static double remove_tree(const char *top)
{
    char path[PATH_MAX];
    MPI_Barrier(world);
    double start = MPI_Wtime();
    tree(path, top, 0);
    if ((unique || rank == 0) && !dummy && rmdir(path) != 0)
        say("WARNING: Unable to remove directory %s/\n", path);
    MPI_Barrier(world);
    double rate = 1 / (MPI_Wtime() - start);
    if (rank == 0 && !dummy && rmdir(top) != 0)
        say("WARNING: unable to remove directory %s\n", top);
    return rate;
}

static void iteration(int number, double *rates, double *own)
{
    char top[PATH_MAX];
    snprintf(top, sizeof top, "%s/test-dir.%d-0", directory, number);
    if (creates)
        rates[TREE_CREATE] = make_tree(top);
    const struct {
        enum row what;
        int wanted, turns;
    } phases[] = {{DIR_CREATE, dirs && creates, 0}, {DIR_STAT, dirs && stats, 1},
                  {DIR_RENAME, dirs && renames && items > 1, 1}, {DIR_REMOVE, dirs && removes, 3},
                  {CREATE, files && creates, 0}, {STAT, files && stats, 1}, {READ, files && reads, 2},
                  {REMOVE, files && removes, 3}};
    for (size_t i = 0; i < sizeof phases / sizeof *phases; i++)
        if (phases[i].wanted)
            rates[phases[i].what] = phase(phases[i].what, top, phases[i].turns, own + phases[i].what);
    if (removes)
        rates[TREE_REMOVE] = remove_tree(top);
}

static void table(double (*rates)[ROWS])
{
    printf("\nSUMMARY rate: (of %lld iterations)\n"
           "   Operation                     Max            Min           Mean        Std Dev\n"
           "   ---------                     ---            ---           ----        -------\n", repetitions);
    int from = dirs ? 0 : CREATE, to = files ? REMOVE : DIR_REMOVE;
    for (int row = from; row < ROWS; row++) {
        double top = 0, low = INFINITY, mean = 0, squares = 0;
        if ((row > to && row < TREE_CREATE) || (row == to && faulty("missing_row")))
            continue;
        if (row == from + 2 && faulty("short_table"))
            return;
        for (int i = 0; i < repetitions; i++) {
            top = fmax(top, rates[i][row]);
            low = fmin(low, rates[i][row]);
            mean += rates[i][row] / repetitions;
        }
        for (int i = 0; i < repetitions; i++)
            squares += pow(rates[i][row] - mean, 2);
        printf("   %-18s     %14.3f %14.3f %14.3f %14.3f\n", TITLES[row], top, low, mean,
               repetitions > 1 ? sqrt(squares / (repetitions - 1)) : 0);
    }
    printf("-- finished at %s --\n\n", now());
}

static void save_head(void)
{
    FILE *file = fopen(ranks, "w");
    if (!file)
        say("%s: Process 0: FAILED in md_validate_tests, Cannot open saveRankPerformanceDetails file for write!\n", now()),
            MPI_Abort(MPI_COMM_WORLD, -1);
    fprintf(file, "rank,items");
    for (int row = 0; row < ROWS; row++)
        fprintf(file, ",rate-%s,time-%s%s", TITLES[row], TITLES[row],
                row == DIR_STAT ? ",rate-Directory read,time-Directory read" : "");
    fprintf(file, "\n");
    fclose(file);
}

/* A line for all of the first iteration, then one for each rank of each: its seconds until it was through. */
static void save_ranks(double (*rates)[ROWS], const double (*own)[ROWS])
{
    double(*all)[ROWS] = calloc(tasks * repetitions, sizeof *all);
    MPI_Gather(own, repetitions * ROWS, MPI_DOUBLE, all, repetitions * ROWS, MPI_DOUBLE, 0, world);
    FILE *file = rank == 0 ? fopen(ranks, "a") : NULL;
    for (int line = -1; file && line < (int)repetitions * tasks; line++) {
        if (line < 0)
            fprintf(file, "all,%lld", items);
        else
            fprintf(file, "%d,", line % tasks);
        for (int row = 0; row < (line < 0 ? ROWS : TREE_CREATE); row++) {
            double count = row < TREE_CREATE ? items : 1;
            double seconds = line < 0 ? count * (row < TREE_CREATE ? tasks : 1) / rates[0][row]
                                      : all[line % tasks * repetitions + line / tasks][row];
            if (seconds > 0 && isfinite(seconds))
                fprintf(file, ",%.10e,%.10e", line < 0 ? rates[0][row] : count / seconds, seconds);
            else
                fprintf(file, ",,");
            if (row == DIR_STAT) /* there is no such operation; the table has no row for it */
                fprintf(file, !dirs || !reads ? ",," : line < 0 ? ",%.10e,%.10e" : ",inf,0.0000000000e+00", 1e3, 1e-3);
        }
        fprintf(file, "\n");
    }
    if (file)
        fclose(file);
    free(all);
}

int main(int argc, char **argv)
{
    MPI_Comm node;
    int place, first, nodes, made = 0;
    fault = getenv("STANDIN_FAULT") ? getenv("STANDIN_FAULT") : "";
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    MPI_Init(&argc, &argv);
    parse(argc, argv);
    world = faulty("singleton") ? MPI_COMM_SELF : MPI_COMM_WORLD;
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &tasks);
    MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &place);
    nodes = place == 0;
    MPI_Allreduce(MPI_IN_PLACE, &nodes, 1, MPI_INT, MPI_SUM, world);
    first = rank;
    MPI_Bcast(&first, 1, MPI_INT, 0, node);
    mine = first == 0; /* on the node of rank 0 */
    int *map = calloc(tasks, sizeof *map);
    MPI_Gather(&mine, 1, MPI_INT, map, 1, MPI_INT, 0, world);
    buffer = calloc(1, 1 + (to_write > to_read ? to_write : to_read));
    if (rank == 0)
        header(argc, argv, nodes);
    if (reads && !to_read)
        say("WARNING: Read bytes is 0, thus, a read test will actually just open/close\n");
    if (rank == 0) {
        if (!dummy && access(directory, F_OK) != 0) {
            made = 1;
            if (mkdir(directory, 0755) != 0)
                say("WARNING: Unable to create test directory path %s\n", directory);
        }
        file_system();
        printf("Nodemap: ");
        for (int i = 0; i < tasks; i++)
            printf("%d", map[i]);
        printf("\n");
        fflush(stdout);
        if (shift && nodes > 1) {
            int per_node = 0;
            for (int i = 0; i < tasks; i++)
                per_node += map[i];
            shift *= per_node;
        }
        if (shift)
            printf("V-0: Rank   0 Line  2537 Shifting ranks by %lld for each phase.\n", shift);
        printf("%d tasks, %lld %s\n", tasks, tasks * items,
               files && dirs ? "files/directories" : files ? "files" : "directories");
        fflush(stdout);
    }
    MPI_Bcast(&shift, 1, MPI_LONG_LONG, 0, world);
    double (*rates)[ROWS] = calloc(repetitions, sizeof *rates), (*own)[ROWS] = calloc(repetitions, sizeof *own);
    if (rank == 0 && ranks)
        save_head();
    for (int i = 0; i < repetitions; i++)
        iteration(i, rates[i], own[i]);
    if (rank == 0)
        table(rates);
    if (ranks)
        save_ranks(rates, own);
    if (made && removes && rmdir(directory) != 0)
        say("%s: Process 0: FAILED in mdtest_run, Unable to remove test directory path %s\n", now(), directory);
    if (rank == 0 && dummy)
        say("WARNING: DUMMY finalized\n");
    fflush(stdout);
    while (faulty("hang"))
        pause();
    MPI_Comm_free(&node);
    MPI_Finalize();
    return 0;
}
