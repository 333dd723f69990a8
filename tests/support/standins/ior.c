/* A stand-in for IOR 4.0.0, for tests only: README.md says what it is, what it can do and what it cannot.
 *
 * It moves real data and takes real times. What it prints has the form of what IOR 4.0.0 prints: the names of places
 * in IOR's source at the ends of messages are part of that form.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <mpi.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#define VERSION "4.0.0"
#define MIB 1048576.0

enum format { TEXT, JSON, CSV };
enum direction { WRITE, READ };
static const char *const NAMES[] = {"write", "read"};

static struct {
    const char *api, *file, *ranks;
    enum format format;
    int separate, direct, collective, keep, does[2], shifted, existing, fsync, random, random_data, verbose;
    long long block, transfer, segments, repetitions, deadline, least_time, offset_seed, signature;
} o = {.api = "POSIX", .file = "testFile", .block = 1 << 20, .transfer = 256 << 10, .segments = 1, .repetitions = 1,
       .offset_seed = -1};

struct result {
    double bandwidth, ops, latency, open, io, close, total;
    long long bytes;
};

static FILE *out;
static MPI_Comm world;
static int rank, tasks, nodes, per_node, dummy, mpiio;
static const char *fault = "";

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

/* Before an end with violence: hydra loses what it has not read by then. */
static void let_hydra_read(void) { usleep(200000); }

static void end(int code)
{
    let_hydra_read();
    MPI_Abort(MPI_COMM_WORLD, code);
    _exit(255); /* results that are not written yet are lost, as with IOR */
}

#define ERROR(place, format, ...) (say("ERROR: " format ", (" place ")\n" __VA_OPT__(, ) __VA_ARGS__), end(-1))

static const char *now(const char *format)
{
    static char text[64];
    time_t seconds = time(NULL);
    strftime(text, sizeof text, format, localtime(&seconds));
    return text;
}
#define DATE "%a %b %e %H:%M:%S %Y"

/* ------------------------------------------------------------------------------------------------ command line --- */

static long long size(const char *text)
{
    char *rest;
    long long number = strtoll(text, &rest, 10);
    const char *const units = "bkmgt", *unit = *rest ? strchr(units, tolower(*rest)) : NULL;
    return unit ? number << 10 * (unit - units) : number;
}

/* The parts of -O. All ranks open, and so empty, the summary: none knows its number before MPI runs. */
static void directive(char *key)
{
    char *value = strchr(key, '=');
    if (value)
        *value++ = 0;
    if (value && strcasecmp(key, "summaryFile") == 0) {
        if (!(out = fopen(value, "w")))
            say("%s: Process 0: FAILED in DecodeDirective, Cannot open output file for writes!\n",
                now("%m/%d/%Y %H:%M:%S")), end(1);
        say("Writing output to %s\n", value);
    } else if (value && strcasecmp(key, "saveRankPerformanceDetailsCSV") == 0) {
        FILE *ranks = fopen(value, "w");
        if (!ranks)
            say("%s: Process 0: FAILED in DecodeDirective, Cannot open saveRankPerformanceDetailsCSV file for write!\n",
                now("%m/%d/%Y %H:%M:%S")), end(1);
        fprintf(ranks, "access,rank,runtime-with-openclose,runtime,throughput-withopenclose,throughput\n");
        fclose(ranks);
        o.ranks = value;
    } else if (value && strcasecmp(key, "summaryFormat") == 0) {
        o.format = strcasecmp(value, "JSON") == 0 ? JSON : strcasecmp(value, "CSV") == 0 ? CSV : TEXT;
        if (o.format == TEXT && strcasecmp(value, "default") != 0)
            say("%s: Process 0: FAILED in DecodeDirective, Unknown summaryFormat\n", now("%m/%d/%Y %H:%M:%S")), end(1);
    } else if (value && strcasecmp(key, "minTimeDuration") == 0) {
        o.least_time = atoi(value);
    } else {
        say("Unrecognized parameter \"%s\"\n", key);
        exit(1);
    }
}

/* An option with a value; 0 if there is no such option, or no such value. */
static int valued(char option, char *value)
{
    switch (option) {
    case 'a': o.api = value; return 1;
    case 'b': o.block = size(value); return 1;
    case 'D': o.deadline = atoi(value); return 1;
    case 'G': o.signature = atoi(value); return 1;
    case 'i': o.repetitions = atoi(value); return 1;
    case 'l': o.random_data = *value == 'r'; return strchr("rt", *value) != NULL;
    case 'o': o.file = value; return 1;
    case 's': o.segments = size(value); return 1;
    case 't': o.transfer = size(value); return 1;
    }
    value = strdup(value);
    for (char *rest, *key = strtok_r(value, ",", &rest); key; key = strtok_r(NULL, ",", &rest))
        directive(key);
    return 1;
}

static int flagged(const char *letters)
{
    static const char KNOWN[] = "FckwrCEezv";
    int *const flags[] = {&o.separate, &o.collective, &o.keep, &o.does[WRITE], &o.does[READ],
                          &o.shifted, &o.existing, &o.fsync, &o.random, &o.verbose};
    const char *at = NULL;
    while (*letters && (at = strchr(KNOWN, *letters++)))
        ++*flags[at - KNOWN];
    return at != NULL;
}

static void parse(int argc, char **argv)
{
    int wrong = 0;
    for (int i = 1; i < argc; i++) {
        char *word = argv[i];
        if (word[0] == '-' && word[1] && !word[2] && strchr("abDGilosOt", word[1]) && i + 1 < argc)
            wrong |= !valued(word[1], argv[++i]);
        else if (strncmp(word, "--random-offset-seed=", 21) == 0)
            o.offset_seed = atoll(word + 21);
        else if (strcmp(word, "--posix.odirect") == 0)
            o.direct = 1;
        else
            wrong |= word[0] != '-' || !flagged(word + 1);
        if (wrong) /* said of all that follows, too */
            say("Error invalid argument: %.*s\n", (int)(word[1] == '-' ? strcspn(word, "=") : 4096), argv[i]);
    }
    if (wrong) {
        say("Invalid options\nSynopsis %s\n", argv[0]);
        exit(1);
    }
    dummy = strcmp(o.api, "DUMMY") == 0;
    mpiio = strcmp(o.api, "MPIIO") == 0;
    if (!dummy && !mpiio && strcmp(o.api, "POSIX") != 0)
        ERROR("utilities.c:321", "Unrecognized I/O API");
    if (!o.does[WRITE] && !o.does[READ])
        o.does[WRITE] = o.does[READ] = 1;
}

static void validate(void)
{
    if (o.block % o.transfer)
        ERROR("ior.c:1490", "block size must be a multiple of transfer size");
    if (o.random && o.block == o.transfer)
        ERROR("ior.c:1495", "IOR will randomize access within a block and repeats the same pattern for all segments, "
                            "therefore choose blocksize > transferSize");
    if (o.random && o.shifted && !o.separate)
        ERROR("ior.c:1536", "random offset and constant reorder tasks specified with single-shared-file. "
                            "Choose one and resubmit");
}

/* ---------------------------------------------------------------------------------------------------- printing --- */

static void text(int indent, const char *key, const char *value, const char *after)
{
    if (o.format == JSON)
        fprintf(out, "%*s\"%s\": \"%s\"%s", indent, "", key, value, after);
    else if (o.format == TEXT)
        fprintf(out, "%-20s: %s\n", key, value);
}

static void number(int indent, const char *key, long long value, const char *after)
{
    fprintf(out, o.format == JSON ? "%*s\"%s\": %lld%s" : "%*s%-20s: %lld\n", o.format == JSON ? indent : 0, "", key,
            value, after);
}

static const char *human(long long bytes)
{
    static char shown[64];
    static const char *const UNITS[] = {"MiB", "GiB", "TiB"};
    sprintf(shown, "%lld bytes", bytes);
    for (int i = 0; i < 3; i++)
        if (bytes >= 1LL << (20 + 10 * i))
            sprintf(shown, "%.*f %s", bytes % (1LL << (20 + 10 * i)) ? 2 : 0, ldexp(bytes, -20 - 10 * i), UNITS[i]);
    return shown;
}

static void file_name(char *name, int whose)
{
    int length = snprintf(name, 4096, "%s", o.file);
    if (o.separate)
        snprintf(name + length, 4096 - length, ".%08d", whose);
}

static void file_system(const char *name)
{
    struct statvfs fs = {0};
    char directory[4096];
    char *slash = strrchr(strcpy(directory, name), '/');
    if (slash)
        slash[slash == directory] = 0;
    if (!dummy && statvfs(slash ? directory : ".", &fs) != 0) {
        perror("POSIX couldn't call statvfs");
        say("WARNING: Backend returned error during statfs\n");
        return;
    }
    double gib = ldexp((double)fs.f_blocks * fs.f_frsize, -30);
    fprintf(out,
            o.format == JSON ? "    , \"Path\": \"%s\",\"Capacity\": \"%.1f %s\", \"Used Capacity\": \"%2.1f%%\","
                               "\"Inodes\": \"%.1f Mi\", \"Used Inodes\" : \"%2.1f%%\"\n"
                             : "Path                : %s\nFS                  : %.1f %s   Used FS: %2.1f%%   "
                               "Inodes: %.1f Mi   Used Inodes: %2.1f%%\n",
            name, gib > 1024 ? gib / 1024 : gib, gib > 1024 ? "TiB" : "GiB",
            dummy ? 0 : (1 - (double)fs.f_bfree / fs.f_blocks) * 100, fs.f_files / MIB,
            dummy ? 0 : (1 - (double)fs.f_ffree / fs.f_files) * 100);
}

static void parameters(const char *host)
{
    int length = (int)strlen(host);
    while (length > 1 && isdigit((unsigned char)host[length - 1]))
        length--;
    fprintf(out,
            ", \n    \"Parameters\": {\n      \"testID\": 0, \n      \"refnum\": 0, \n      \"api\": \"%s\", \n"
            "      \"platform\": \"%.*s(Linux)\", \n      \"testFileName\": \"%s\", \n"
            "      \"deadlineForStonewall\": %lld, \n      \"stoneWallingWearOut\": 0, \n"
            "      \"maxTimeDuration\": 0, \n      \"outlierThreshold\": 0, \n      \"options\": \"(null)\", \n"
            "      \"dryRun\": 0, \n      \"nodes\": %d, \n      \"memoryPerTask\": 0, \n      \"memoryPerNode\": 0, \n"
            "      \"tasksPerNode\": %d, \n      \"repetitions\": %lld, \n      \"multiFile\": 0, \n"
            "      \"interTestDelay\": 0, \n      \"fsync\": %d, \n      \"fsyncperwrite\": 0, \n"
            "      \"useExistingTestFile\": %d, \n      \"uniqueDir\": 0, \n      \"singleXferAttempt\": 0, \n"
            "      \"readFile\": %d, \n      \"writeFile\": %d, \n      \"filePerProc\": %d, \n"
            "      \"reorderTasks\": %d, \n      \"reorderTasksRandom\": 0, \n      \"reorderTasksRandomSeed\": 0, \n"
            "      \"randomOffset\": %d, \n      \"checkWrite\": 0, \n      \"checkRead\": 0, \n",
            o.api, length, host, o.file, o.deadline, nodes, per_node, o.repetitions, o.fsync, o.existing, o.does[READ],
            o.does[WRITE], o.separate, o.shifted, o.random);
    fprintf(out,
            "      \"dataPacketType\": %d, \n      \"keepFile\": %d, \n      \"keepFileWithError\": 0, \n"
            "      \"warningAsErrors\": 0, \n      \"verbose\": %d, \n      \"data packet type\": \"%s\", \n"
            "      \"setTimeStampSignature/incompressibleSeed\": %lld, \n      \"collective\": %d, \n"
            "      \"segmentCount\": %lld, \n      \"transferSize\": %lld, \n      \"blockSize\": %lld\n    }\n, \n",
            o.random_data ? 3 : 0, o.keep, o.verbose, o.random_data ? "i" : "g", o.signature, o.collective, o.segments,
            o.transfer, o.block);
}

static void options(void)
{
    static const char MORE[] = ", \n";
    int major, minor;
    char mpi[32];
    MPI_Get_version(&major, &minor);
    snprintf(mpi, sizeof mpi, "(%d.%d)", major, minor);
    fprintf(out, o.format == JSON ? "    \"Options\": {\n" : "\nOptions: \n");
    text(6, "api", o.api, MORE);
    text(6, "apiVersion", mpiio ? mpi : dummy ? "0.5" : "", MORE);
    text(6, "test filename", o.file, MORE);
    text(6, "access", o.separate ? "file-per-process" : "single-shared-file", MORE);
    text(6, "type", o.collective ? "collective" : "independent", MORE);
    number(6, "segments", o.segments, MORE);
    text(6, "ordering in a file", o.random ? "random" : "sequential", MORE);
    text(6, "ordering inter file", o.shifted ? "constant task offset" : "no tasks offsets", MORE);
    if (o.shifted)
        number(6, "task offset", 1, MORE);
    number(6, "nodes", nodes, MORE);
    number(6, "tasks", tasks, MORE);
    number(6, "clients per node", per_node, MORE);
    number(6, "repetitions", o.repetitions, MORE);
    text(6, "xfersize", human(o.transfer), MORE);
    text(6, "blocksize", human(o.block), MORE);
    text(6, "aggregate filesize", human(o.block * o.segments * tasks), o.verbose || o.deadline ? MORE : "\n");
    if (o.verbose)
        number(6, "verbose", o.verbose, o.deadline ? MORE : "\n");
    if (o.deadline) {
        number(6, "stonewallingTime", o.deadline, MORE);
        number(6, "stoneWallingWearOut", 0, "\n");
    }
    fprintf(out, o.format == JSON ? "    }\n, \n    \"Results\": [\n" : "\nResults: \n");
}

/* All that stands before the results. */
static void header(int argc, char **argv)
{
    struct utsname machine;
    char line[16384] = "", name[4096];
    uname(&machine);
    for (int i = 0; i < argc; i++)
        snprintf(line + strlen(line), sizeof line - strlen(line), "%s%s", i ? " " : "", argv[i]);
    fprintf(out, o.format == JSON ? "{\n  \"Version\": \"%s\", \n" : "IOR-%s: MPI Coordinated Test of Parallel I/O\n",
            VERSION);
    text(2, "Began", now(DATE), ", \n");
    text(2, "Command line", line, ", \n");
    snprintf(line, sizeof line, o.verbose < 2 ? "%s %s" : "%s %s %s %s %s", machine.sysname, machine.nodename,
             machine.release, machine.version, machine.machine);
    text(2, "Machine", line, o.format == JSON ? ", \n  \"tests\": [\n    {\n" : "");
    if (dummy)
        say("WARNING: DUMMY initialized\n");
    number(4, "TestID", 0, ", \n");
    text(4, "StartTime", now(DATE), "");
    file_name(name, 0);
    file_system(name);
    if (o.format == JSON)
        parameters(machine.nodename);
    if (o.verbose)
        say("Participating tasks : %d\n", tasks);
    if (o.verbose && o.shifted)
        say("Using reorderTasks '-C' (useful to avoid read cache in client)\n");
    options();
    fflush(out);
}

static void table_head(void)
{
    if (o.format == TEXT)
        fprintf(out, "\naccess    bw(MiB/s)  IOPS       Latency(s)  block(KiB) xfer(KiB)  open(s)    wr/rd(s)   close(s)"
                     "   total(s)   iter\n------    ---------  ----       ----------  ---------- ---------  --------"
                     "   --------   --------   --------   ----\n");
    else if (o.format == CSV)
        fprintf(out, "access,bw(MiB/s),IOPS,Latency,block(KiB),xfer(KiB),open(s),wr/rd(s),close(s),total(s),numTasks,iter\n");
}

static void row(enum direction direction, const struct result *r, int repetition)
{
    static int rows;
    double bandwidth = r->bandwidth / MIB, block = o.block / 1024.0, transfer = o.transfer / 1024.0;
    if (o.format == TEXT) {
        const double cells[] = {bandwidth, r->ops, r->latency, block, transfer, r->open, r->io, r->close, r->total};
        fprintf(out, "%-10s", NAMES[direction]);
        for (int i = 0; i < 9; i++)
            fprintf(out, "%-10.*f%s", cells[i] < 1 ? 6 : cells[i] < 3600 ? 2 : 0, cells[i], i == 2 ? "  " : " ");
        fprintf(out, "%-4d\n", repetition);
    } else if (o.format == CSV) {
        fprintf(out, "%s,%.4f,%.4f,%.4f,%.4f,%.4f,%.4f,%.4f,%.4f,%.4f,%d,%d\n", NAMES[direction], bandwidth, r->ops,
                r->latency, block, transfer, r->open, r->io, r->close, r->total, tasks, repetition);
    } else {
        fprintf(out, "%s            {\n        \"access\": \"%s\", \n        \"bwMiB\": %.4f, \n"
                     "        \"blockKiB\": %.4f, \n        \"xferKiB\": %.4f, \n        \"iops\": %.4f, \n"
                     "        \"latency\": %.4f, \n        \"openTime\": %.4f, \n        \"wrRdTime\": %.4f, \n"
                     "        \"closeTime\": %.4f, \n        \"totalTime\": %.4f\n      }\n",
                rows++ ? ", \n" : "", NAMES[direction], bandwidth, block, transfer, r->ops, r->latency, r->open, r->io,
                r->close, r->total);
    }
    fflush(out);
}

/* Maximum, minimum, mean and standard deviation. */
static void statistics(double s[4], const struct result *results, double unit)
{
    s[0] = s[2] = s[3] = 0, s[1] = INFINITY;
    for (int i = 0; i < o.repetitions; i++) {
        double value = results[i].bytes / unit / results[i].total;
        s[0] = fmax(s[0], value);
        s[1] = fmin(s[1], value);
        s[2] += value / o.repetitions;
    }
    for (int i = 0; i < o.repetitions; i++)
        s[3] += pow(results[i].bytes / unit / results[i].total - s[2], 2) / o.repetitions;
    s[3] = sqrt(s[3]);
}

static void summary_row(enum direction direction, const struct result *results)
{
    double b[4], p[4], seconds = 0, moved = results[0].bytes / MIB;
    statistics(b, results, MIB);
    statistics(p, results, o.transfer);
    for (int i = 0; i < o.repetitions; i++)
        seconds += results[i].total / o.repetitions;
    if (o.format == TEXT)
        fprintf(out, "%-9s %10.2f %10.2f %10.2f %10.2f %10.2f %10.2f %10.2f %10.2f %10.5f         NA            NA     0 "
                     "%6d %3d %4lld %3d %5d        1         0    0 %6lld %8lld %8lld %9.1f %3s      0\n",
                NAMES[direction], b[0], b[1], b[2], b[3], p[0], p[1], p[2], p[3], seconds, tasks, per_node,
                o.repetitions, o.separate, o.shifted, o.segments, o.block, o.transfer, moved, o.api);
    else
        fprintf(out, "%s    {\n    \"operation\": \"%s\", \n    \"API\": \"%s\", \n    \"TestID\": 0, \n"
                     "    \"ReferenceNumber\": 0, \n    \"segmentCount\": %lld, \n    \"blockSize\": %lld, \n"
                     "    \"transferSize\": %lld, \n    \"numTasks\": %d, \n    \"tasksPerNode\": %d, \n"
                     "    \"repetitions\": %lld, \n    \"filePerProc\": %d, \n    \"reorderTasks\": %d, \n"
                     "    \"taskPerNodeOffset\": 1, \n    \"reorderTasksRandom\": 0, \n"
                     "    \"reorderTasksRandomSeed\": 0, \n    \"bwMaxMIB\": %.4f, \n    \"bwMinMIB\": %.4f, \n"
                     "    \"bwMeanMIB\": %.4f, \n    \"bwStdMIB\": %.4f, \n    \"OPsMax\": %.4f, \n"
                     "    \"OPsMin\": %.4f, \n    \"OPsMean\": %.4f, \n    \"OPsSD\": %.4f, \n    \"MeanTime\": %.4f, \n"
                     "    \"xsizeMiB\": %.4f\n  }\n",
                direction == READ && o.does[WRITE] ? ", \n" : "", NAMES[direction], o.api, o.segments, o.block,
                o.transfer, tasks, per_node, o.repetitions, o.separate, o.shifted, b[0], b[1], b[2], b[3], p[0], p[1],
                p[2], p[3], seconds, moved);
}

/* All that stands behind the results. */
static void footer(struct result *const results[2])
{
    double b[4];
    for (int d = WRITE; d <= READ; d++) {
        statistics(b, results[d], 1);
        if (o.verbose && o.format == TEXT && o.does[d])
            fprintf(out, "Max %s%.2f MiB/sec (%.2f MB/sec)\n", d == READ ? "Read:  " : "Write: ", b[0] / MIB, b[0] / 1e6);
    }
    if (dummy)
        say("WARNING: DUMMY finalized\n");
    if (o.format == CSV)
        return;
    fprintf(out, o.format == JSON
                     ? "]\n\n  }\n]\n, \n\"summary\": [\n"
                     : "\nSummary of all tests:\nOperation   Max(MiB)   Min(MiB)  Mean(MiB)     StdDev   Max(OPs)"
                       "   Min(OPs)  Mean(OPs)     StdDev    Mean(s) Stonewall(s) Stonewall(MiB) Test# #Tasks tPN reps"
                       " fPP reord reordoff reordrand seed segcnt   blksiz    xsize aggs(MiB)   API RefNum\n");
    for (int d = WRITE; d <= READ; d++)
        if (o.does[d])
            summary_row(d, results[d]);
    if (o.format == JSON)
        fprintf(out, "]\n, \n\"Finished\": \"%s\"\n}\n", now(DATE));
    else
        text(0, "Finished", now(DATE), "");
}

/* --------------------------------------------------------------------------------------------------------- I/O --- */

static int fd;
static MPI_File file;

static uint64_t mix(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    return z ^ z >> 31;
}

static const char *mpi_error(int code)
{
    static char text[MPI_MAX_ERROR_STRING];
    int length;
    MPI_Error_string(code, text, &length);
    return text;
}

static void open_file(enum direction direction, const char *name)
{
    int flags = (direction == WRITE ? O_CREAT | O_RDWR : O_RDONLY) | (o.direct ? O_DIRECT : 0), code;
    if (mpiio) {
        int mode = MPI_MODE_UNIQUE_OPEN | (direction == WRITE ? MPI_MODE_CREATE | MPI_MODE_WRONLY : MPI_MODE_RDONLY);
        code = MPI_File_open(o.separate ? MPI_COMM_SELF : world, name, mode, MPI_INFO_NULL, &file);
        if (code != MPI_SUCCESS)
            ERROR("aiori-MPIIO.c:235", "cannot open file: %s, MPI %s", name, mpi_error(code));
        /* even with -E; through POSIX nothing is truncated */
        if (direction == WRITE && (code = MPI_File_set_size(file, 0)) != MPI_SUCCESS)
            ERROR("aiori-MPIIO.c:238", "cannot truncate file: %s, MPI %s", name, mpi_error(code));
    } else if (!dummy && (fd = open(name, flags, 0664)) < 0) {
        if (direction == WRITE)
            ERROR("aiori-POSIX.c:569", "open64(\"%s\", %d, 0664) failed. Error: %s", name, flags, strerror(errno));
        ERROR("aiori-POSIX.c:641", "open64(\"%s\", %d) failed: %s", name, flags, strerror(errno));
    }
}

static void transfer_posix(enum direction direction, char *buffer, long long at, int fails)
{
    const char *name = NAMES[direction];
    for (long long got, left = o.transfer; left > 0; left -= got, at += got, buffer += got) {
        got = fails ? -1 : direction == WRITE ? pwrite(fd, buffer, left, at) : pread(fd, buffer, left, at);
        if (got < 0)
            say("WARNING: %s(%d, %p, %lld) failed %s\n", name, fd, (void *)buffer, left, strerror(fails ? EIO : errno));
        else if (got == 0 && direction == READ)
            say("WARNING: read(%d, %p, %lld) returned EOF prematurely\n", fd, (void *)buffer, left);
        if (got <= 0 && direction == READ)
            ERROR("ior.c:1666", "cannot read from file");
        if (got < left)
            say("WARNING: task %d, partial %s(), %lld of %lld bytes at offset %lld\n\n", rank, name, got, left, at);
        if (got < 0) {
            fprintf(stderr, "ior: aiori-POSIX.c:769: POSIX_Xfer: Assertion `rc >= 0' failed.\n");
            let_hydra_read();
            abort();
        }
    }
}

static void transfer_mpi(enum direction direction, char *buffer, long long at)
{
    int count = (int)o.transfer, code;
    if (o.collective)
        code = direction == WRITE ? MPI_File_write_at_all(file, at, buffer, count, MPI_BYTE, MPI_STATUS_IGNORE)
                                  : MPI_File_read_at_all(file, at, buffer, count, MPI_BYTE, MPI_STATUS_IGNORE);
    else
        code = direction == WRITE ? MPI_File_write_at(file, at, buffer, count, MPI_BYTE, MPI_STATUS_IGNORE)
                                  : MPI_File_read_at(file, at, buffer, count, MPI_BYTE, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS && o.collective)
        ERROR("aiori-MPIIO.c:459", "cannot access explicit, collective, MPI %s", mpi_error(code));
    if (code != MPI_SUCCESS)
        ERROR("aiori-MPIIO.c:465", "cannot access explicit, noncollective, MPI %s", mpi_error(code));
}

/* The offsets of a segment in a random order: of a rank's own file, or those of the shared file that are this rank's. */
static long long *shuffled(int whose, long long *count)
{
    if (o.offset_seed < 0) {
        o.offset_seed = time(NULL);
        MPI_Bcast(&o.offset_seed, 1, MPI_LONG_LONG, 0, world);
    }
    uint64_t lots = o.offset_seed, order = o.offset_seed + whose;
    long long all = o.block / o.transfer * (o.separate ? 1 : tasks), *list = malloc(all * sizeof *list);
    *count = 0;
    for (long long i = 0; i < all; i++)
        if (o.separate || mix(&lots) % tasks == (uint64_t)whose)
            list[(*count)++] = i * o.transfer;
    for (long long i = *count - 1; i > 0; i--) {
        long long j = mix(&order) % (i + 1), kept = list[i];
        list[i] = list[j];
        list[j] = kept;
    }
    return list;
}

/* Goes over the file, and again and again until the least time is over; ends at the deadline. Gives the bytes moved. */
static long long transfer(enum direction direction, int whose, char *buffer)
{
    long long count = o.block / o.transfer, moved = 0, *order = o.random ? shuffled(whose, &count) : NULL;
    int stop = 0, again = 0, struck = rank == tasks - 1, stalled = !o.deadline;
    double start = MPI_Wtime();
    do {
        for (long long s = 0; s < o.segments && !stop; s++) {
            for (long long i = 0; i < count && !stop; i++) {
                long long at = s * o.block * (o.separate ? 1 : tasks);
                at += order ? order[i] : i * o.transfer + (o.separate ? 0 : whose * o.block);
                uint64_t seed = (uint64_t)at * 0xD6E8FEB86659FD93 + o.signature * 4099 + whose;
                if (direction == WRITE && o.random_data)
                    for (long long k = 0; k < o.transfer / 8; k++)
                        ((uint64_t *)(void *)buffer)[k] = mix(&seed);
                if (struck && moved && faulty("kill_rank"))
                    let_hydra_read(), raise(SIGKILL);
                if ((struck && faulty("slow_rank")) || (rank >= per_node && faulty("slow_node")))
                    usleep(20000);
                if (faulty("stall") && !stalled && MPI_Wtime() - start > o.deadline / 2.0)
                    stalled = !usleep(o.deadline * 250000);
                if (mpiio)
                    transfer_mpi(direction, buffer, at);
                else if (!dummy)
                    transfer_posix(direction, buffer, at, struck && moved && faulty("io_error"));
                moved += o.transfer;
                stop = o.deadline && MPI_Wtime() - start > o.deadline;
                if (o.collective && o.deadline)
                    MPI_Bcast(&stop, 1, MPI_INT, 0, world);
            }
        }
        again = MPI_Wtime() - start < o.least_time;
        if (o.collective && o.least_time)
            MPI_Bcast(&again, 1, MPI_INT, 0, world);
    } while (again);
    free(order);
    if (direction == WRITE && o.fsync && !dummy && (mpiio ? MPI_File_sync(file) != MPI_SUCCESS : fsync(fd) != 0))
        say(mpiio ? "WARNING: fsync() failed\n" : "WARNING: fsync(%d) failed\n", fd);
    return moved;
}

static void remove_file(const char *name)
{
    if ((o.separate || rank == 0) && !dummy && access(name, F_OK) == 0 && unlink(name) != 0)
        say("WARNING: [RANK %03d]: unlink() of file \"%s\" failed\n", rank, name);
}

/* Bytes that were moved by all; tells where they, those expected and those in the files are not the same. */
static long long check_bytes(const char *name, long long moved)
{
    struct stat found = {0};
    long long expected = o.block * o.segments * tasks, stated;
    if (!dummy)
        stat(name, &found);
    stated = found.st_size;
    MPI_Allreduce(MPI_IN_PLACE, &stated, 1, MPI_LONG_LONG, o.separate ? MPI_SUM : MPI_MIN, world);
    MPI_Allreduce(MPI_IN_PLACE, &moved, 1, MPI_LONG_LONG, MPI_SUM, world);
    if (faulty("stale_warning"))
        stated = stated / 3 * 2;
    if (rank == 0 && (expected != moved || stated != moved))
        say("WARNING: Expected aggregate file size       = %lld\nWARNING: Stat() of aggregate file size      = %lld\n"
            "WARNING: Using actual aggregate bytes moved = %lld\n%s", expected, stated, moved,
            o.deadline ? "WARNING: Maybe caused by deadlineForStonewalling\n" : "");
    return moved;
}

/* A line for each rank: its times, and rates as if each had moved as much as the others. */
static void save_ranks(enum direction direction, double total, double io, long long bytes)
{
    double own[] = {total, io}, *all = malloc(2 * tasks * sizeof *all);
    MPI_Gather(own, 2, MPI_DOUBLE, all, 2, MPI_DOUBLE, 0, world);
    FILE *ranks = rank == 0 ? fopen(o.ranks, "a") : NULL;
    for (int i = 0; ranks && i < tasks; i++) {
        double share = (double)bytes / tasks, *its = all + 2 * i;
        fprintf(ranks, "%s,%d,%.10e,%.10e,%.10e,%.10e\n", NAMES[direction], i, its[0], its[1], share / its[0],
                share / its[1]);
    }
    if (ranks)
        fclose(ranks);
    free(all);
}

static struct result measure(enum direction direction, char *name, char *buffer)
{
    int whose = direction == READ && o.shifted ? (rank + per_node) % tasks : rank;
    double t[6]; /* when open, transfer and close began and ended */
    file_name(name, whose);
    if (direction == WRITE && !o.existing)
        remove_file(name);
    MPI_Barrier(world);
    t[0] = MPI_Wtime();
    open_file(direction, name);
    t[1] = MPI_Wtime();
    if (rank == 0 && o.verbose)
        say("Commencing %s performance test: %s\n%s", NAMES[direction], now(DATE), direction == READ ? "\n" : "");
    t[2] = MPI_Wtime();
    long long moved = transfer(direction, whose, buffer);
    t[3] = t[4] = MPI_Wtime();
    if (mpiio)
        MPI_File_close(&file);
    else if (!dummy && close(fd) != 0)
        ERROR("aiori-POSIX.c:827", "close(%d) failed", fd);
    t[5] = MPI_Wtime();
    double total = t[5] - t[0], io = t[3] - t[2];
    MPI_Barrier(world);
    struct result r = {.bytes = check_bytes(name, moved), .latency = (t[3] - t[2]) / (o.block / o.transfer)};
    MPI_Allreduce(MPI_IN_PLACE, &r.latency, 1, MPI_DOUBLE, MPI_MIN, world);
    for (int i = 0; i < 6; i++) /* from the first to begin to the last to end */
        MPI_Allreduce(MPI_IN_PLACE, &t[i], 1, MPI_DOUBLE, i % 2 ? MPI_MAX : MPI_MIN, world);
    r.open = t[1] - t[0], r.io = t[3] - t[2], r.close = t[5] - t[4], r.total = t[5] - t[0];
    r.bandwidth = r.bytes / r.total;
    r.ops = r.bytes / o.transfer / r.io;
    if (o.ranks)
        save_ranks(direction, total, io, r.bytes);
    if (faulty("bad_json"))
        r.latency = NAN;
    return r;
}

static void run(struct result *const results[2])
{
    char name[4096], *buffer = NULL;
    if (posix_memalign((void **)&buffer, sysconf(_SC_PAGESIZE), o.transfer) != 0)
        ERROR("utilities.c:1", "out of memory");
    file_name(name, rank);
    if (o.does[WRITE] && (o.separate || rank == 0) && (dummy || access(name, F_OK) == 0))
        say("WARNING: The file \"%s\" exists already and will be overwritten\n", name);
    for (int i = 0; i < o.repetitions; i++) {
        unsigned stamp = o.signature ? o.signature : time(NULL);
        if (rank == 0 && o.verbose >= 2)
            say("Using Time Stamp %u (0x%x) for Data Signature\n", stamp, stamp);
        if (rank == 0 && i == 0)
            table_head();
        for (long long k = 0; k < o.transfer / 8; k++) /* without -l: one block of numbers, again and again */
            ((uint64_t *)(void *)buffer)[k] = (uint64_t)rank << 40 ^ (stamp + k);
        for (int d = WRITE; d <= READ; d++) {
            if (!o.does[d])
                continue;
            results[d][i] = measure(d, name, buffer);
            int last = i == o.repetitions - 1 && (d == READ || !o.does[READ]);
            if (rank == 0 && !(last && faulty("missing_row")))
                row(d, &results[d][i], i);
        }
        double start = MPI_Wtime();
        if (!o.keep)
            remove_file(name);
        MPI_Barrier(world);
        if (rank == 0 && o.verbose && !o.keep && o.format == TEXT)
            fprintf(out, "remove    -          -          -           -          -          -          -          -     "
                         "     %-10.6f %-4d\n", MPI_Wtime() - start, i);
    }
    free(buffer);
}

int main(int argc, char **argv)
{
    MPI_Comm node;
    int place;
    fault = getenv("STANDIN_FAULT") ? getenv("STANDIN_FAULT") : "";
    out = stdout;
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    parse(argc, argv);
    MPI_Init(&argc, &argv);
    world = faulty("singleton") ? MPI_COMM_SELF : MPI_COMM_WORLD;
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &tasks);
    MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &per_node);
    MPI_Comm_rank(node, &place);
    nodes = place == 0;
    MPI_Allreduce(MPI_IN_PLACE, &nodes, 1, MPI_INT, MPI_SUM, world);
    MPI_Bcast(&per_node, 1, MPI_INT, 0, world);
    validate();
    if (rank == 0 && o.format != CSV)
        header(argc, argv);
    struct result *results[] = {calloc(o.repetitions, sizeof(struct result)),
                                calloc(o.repetitions, sizeof(struct result))};
    run(results);
    if (rank == 0 && !faulty("short_table"))
        footer(results);
    fflush(NULL);
    while (faulty("hang"))
        pause();
    MPI_Comm_free(&node);
    MPI_Finalize();
    return 0;
}
