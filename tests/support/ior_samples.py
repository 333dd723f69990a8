"""What is right for every sample of IOR (samples/ior): decided by hand, figures read off the files.

`read_missing` of 3.3.0 in CSV says nothing but its exit code, nor does `perm` of main. `E_nompi_singleton` is good: one
task ran, as its command asks. `T_timelimit` is good: -T 0 is no limit. IOR 3.3's CSV is bad whatever ran. Before 3.3 no
operations per second are printed. 3.1.0 was built without O_DIRECT, and says so. What an aborted run of 3.0 to 3.2
printed last is lost at times: then it says nothing but its exit code.
"""

from typing import NamedTuple


class Good(NamedTuple):
    """Rows, then of the first one its access, bandwidth (MiB/s) and IOPS, and the last one's total (s)."""

    rows: int
    label: str
    bandwidth_mib_per_s: float
    ops_per_s: float | None
    last_runtime_s: float
    tasks: int
    phase: str | None = None  # where the files tell the ordering


class Bad:
    """What the problems must say, all of it."""

    def __init__(self, *reasons: str) -> None:
        self.reasons = reasons


class Doubtful(Bad):
    """What the problems must say; the rows are there, and suspect."""


#: (version, sample) -> verdict
EXPECTED: dict[tuple[str, str], Good | Bad] = {
    ("4.0.0", "posix_fpp_seq_1m_np2_i3_JSON"): Good(6, "write", 6739.6986, 6763.8132, 0.0019, tasks=2, phase="seq"),
    ("4.0.0", "posix_fpp_seq_1m_np2_i3_default"): Good(6, "write", 3815.0, 3824.0, 0.00177, tasks=2, phase="seq"),
    ("4.0.0", "posix_shared_seq_1m_np1_i3_CSV"): Good(6, "write", 1350.7274, 1353.1786, 0.0017, tasks=1),
    ("4.0.0", "posix_shared_seq_1m_np2_i3_CSV"): Good(6, "write", 253.399, 253.5517, 0.0056, tasks=2),
    ("4.0.0", "posix_shared_seq_128k_np2_i3_JSON"): Good(
        6, "write", 1274.1383, 10254.7282, 0.0014, tasks=2, phase="seq"
    ),
    ("4.0.0", "posix_shared_seq_1m_np4_i3_CSV"): Good(6, "write", 1279.9493, 1280.7677, 0.0096, tasks=4),
    ("4.0.0", "posix_shared_seq_128k_np4_i3_JSON"): Good(
        6, "write", 1918.4101, 15371.2289, 0.0107, tasks=4, phase="seq"
    ),
    ("4.0.0", "posix_shared_rand_128k_np2_CSV"): Good(6, "write", 1979.3498, 15872.9537, 0.0013, tasks=2),
    ("4.0.0", "posix_fpp_odirect_CSV"): Good(6, "write", 593.2419, 593.5108, 0.1887, tasks=2),
    ("4.0.0", "mpiio_shared_CSV"): Good(6, "write", 377.9269, 416.0681, 0.0026, tasks=2),
    ("4.0.0", "mpiio_coll_JSON"): Good(6, "write", 899.3566, 1290.1147, 0.0035, tasks=2, phase="seq"),
    ("4.0.0", "stonewall_D1_wearout_CSV"): Good(2, "write", 1766.1944, 1766.2465, 3.1281, tasks=2),
    ("4.0.0", "read_only_existing"): Good(3, "read", 22639.4076, 22719.8862, 0.0019, tasks=2, phase="seq"),
    ("4.0.0", "rankdetails"): Good(6, "write", 12348.1051, 12461.0276, 0.0088, tasks=2),
    ("4.0.0", "verbose_v2_stdout"): Good(6, "write", 2933.62, 2939.31, 0.00189, tasks=2, phase="seq"),
    ("4.0.0", "csv_stdout"): Good(6, "write", 7028.5781, 7093.9603, 0.0009, tasks=2),
    ("3.3.0", "posix_fpp_seq_1m_np2_i3_JSON"): Good(6, "write", 3195.8374, 3202.3794, 0.0096, tasks=2, phase="seq"),
    ("3.3.0", "posix_fpp_seq_1m_np2_i3_default"): Good(6, "write", 2089.43, 2092.5, 0.004221, tasks=2, phase="seq"),
    ("3.3.0", "posix_shared_seq_1m_np1_i3_CSV"): Bad("neither separators nor results"),
    ("3.3.0", "posix_shared_seq_1m_np2_i3_CSV"): Bad("neither separators nor results"),
    ("3.3.0", "posix_shared_seq_128k_np2_i3_JSON"): Good(
        6, "write", 1998.4931, 16034.3988, 0.0014, tasks=2, phase="seq"
    ),
    ("3.3.0", "posix_shared_seq_1m_np4_i3_CSV"): Bad("neither separators nor results"),
    ("3.3.0", "posix_shared_seq_128k_np4_i3_JSON"): Good(
        6, "write", 2416.9356, 19353.6815, 0.0133, tasks=4, phase="seq"
    ),
    ("3.3.0", "posix_shared_rand_128k_np2_CSV"): Bad("neither separators nor results"),
    ("3.3.0", "posix_fpp_odirect_CSV"): Bad("neither separators nor results"),
    ("3.3.0", "mpiio_shared_CSV"): Bad("neither separators nor results"),
    ("3.3.0", "mpiio_coll_JSON"): Good(6, "write", 1638.2166, 1647.4003, 0.0024, tasks=2, phase="seq"),
    ("3.3.0", "stonewall_D1_wearout_CSV"): Bad("neither separators nor results"),
    ("3.3.0", "read_only_existing"): Good(3, "read", 31971.2898, 32149.1722, 0.0018, tasks=2, phase="seq"),
    ("3.3.0", "verbose_v2_stdout"): Good(6, "write", 4092.0, 4100.0, 0.002099, tasks=2, phase="seq"),
    ("3.3.0", "csv_stdout"): Bad("neither separators nor results"),
    ("main", "posix_fpp_seq_1m_np2_i3_default"): Good(6, "write", 2988.83, 2994.03, 0.001911, tasks=2, phase="seq"),
    ("main", "posix_shared_seq_1m_np1_i3_CSV"): Good(6, "write", 1101.997, 1103.1383, 0.0051, tasks=1),
    ("main", "posix_shared_seq_1m_np2_i3_CSV"): Good(6, "write", 1585.4485, 1587.2578, 0.0019, tasks=2),
    ("main", "posix_shared_seq_1m_np4_i3_CSV"): Good(6, "write", 1525.2448, 1526.624, 0.0081, tasks=4),
    ("main", "posix_shared_seq_128k_np4_i3_JSON"): Good(
        6, "write", 1778.0715, 14247.9774, 0.0093, tasks=4, phase="seq"
    ),
    ("main", "posix_shared_rand_128k_np2_CSV"): Good(6, "write", 351.957, 2817.3696, 0.0105, tasks=2),
    ("main", "posix_fpp_odirect_CSV"): Good(6, "write", 2258.1321, 2261.3279, 0.028, tasks=2),
    ("main", "mpiio_shared_CSV"): Good(6, "write", 2361.72, 2695.8659, 0.0019, tasks=2),
    ("main", "mpiio_coll_JSON"): Good(6, "write", 198.2485, 204.4819, 0.002, tasks=2, phase="seq"),
    ("main", "stonewall_D1_wearout_CSV"): Good(2, "write", 726.5528, 726.6228, 1.3029, tasks=2),
    ("main", "read_only_existing"): Good(3, "read", 6154.518, 6164.5529, 0.0056, tasks=2, phase="seq"),
    ("main", "rankdetails"): Good(6, "write", 333.432, 333.9821, 0.0044, tasks=2),
    ("main", "verbose_v2_stdout"): Good(6, "write", 1962.84, 1965.37, 0.009641, tasks=2, phase="seq"),
    ("4.0.0", "E_nospace_CSV"): Bad("exit code is 6", "No space left"),
    ("4.0.0", "E_invalidopt_CSV"): Bad("exit code is 1", "nvalid argument: --bogus"),
    ("4.0.0", "E_read_missing_CSV"): Bad("exit code is 255", "No such file or directory"),
    ("4.0.0", "OK_datacheck_W_R_CSV"): Good(4, "write", 1438.3142, 1443.2635, 0.0013, tasks=2),
    ("4.0.0", "E_odirect_unaligned_CSV"): Bad("exit code is 6", "nvalid argument"),
    ("4.0.0", "E_block_not_multiple_CSV"): Bad("exit code is 255", "block size must be a multiple"),
    ("4.0.0", "E_kill9_lastrank_CSV"): Bad("exit code is 9", "BAD TERMINATION"),
    ("4.0.0", "E_kill9_rank0_CSV"): Bad("exit code is 9", "BAD TERMINATION"),
    ("4.0.0", "E_nospace_JSON"): Bad("exit code is 6", "No space left", "the JSON is cut"),
    ("4.0.0", "E_invalidopt_JSON"): Bad("exit code is 1", "nvalid argument: --bogus"),
    ("4.0.0", "E_datacheck_R_corrupt_JSON"): Bad("exit code is 2", "ncorrect data on read"),
    ("4.0.0", "E_read_missing_JSON"): Bad("exit code is 255", "No such file or directory", "the JSON is cut"),
    ("4.0.0", "OK_datacheck_W_R_JSON"): Good(4, "write", 1001.1915, 1004.3831, 0.0076, tasks=2, phase="seq"),
    ("4.0.0", "E_odirect_unaligned_JSON"): Bad("exit code is 6", "nvalid argument", "the JSON is cut"),
    ("4.0.0", "E_block_not_multiple_JSON"): Bad("exit code is 255", "block size must be a multiple"),
    ("4.0.0", "E_kill9_lastrank_JSON"): Bad("exit code is 9", "BAD TERMINATION", "the JSON is cut"),
    ("4.0.0", "E_kill9_rank0_JSON"): Bad("exit code is 9", "BAD TERMINATION", "the JSON is cut"),
    ("4.0.0", "E_sigterm_mpirun_JSON"): Bad("exit code is 15", "the JSON is cut"),
    ("4.0.0", "E_summary_dir_missing"): Bad("exit code is 1", "Cannot open output file"),
    ("4.0.0", "E_summary_badformat"): Bad("exit code is 1", "Unknown summaryFormat"),
    ("4.0.0", "E_bad_O_directive"): Bad("exit code is 1", "Unrecognized parameter"),
    ("4.0.0", "E_badapi"): Bad("exit code is 1", "recognized I/O API"),
    ("4.0.0", "E_N_gt_np"): Bad("More tasks requested", "2 tasks ran, the command asks for 4"),
    ("4.0.0", "E_perm_CSV"): Bad("exit code is 255", "Permission denied"),
    ("4.0.0", "E_perm_JSON"): Bad("exit code is 255", "Permission denied", "the JSON is cut"),
    ("4.0.0", "E_nompi_singleton"): Good(6, "write", 5464.8912, 5594.2701, 0.0007, tasks=1, phase="seq"),
    ("4.0.0", "T_timelimit_CSV"): Good(2, "write", 2884.9138, 2996.1989, 0.001, tasks=2),
    ("3.3.0", "E_nospace_CSV"): Bad("exit code is 255", "No space left", "neither separators nor results"),
    ("3.3.0", "E_invalidopt_CSV"): Bad("nvalid argument: --bogus"),
    ("3.3.0", "E_read_missing_CSV"): Bad("exit code is 255", "neither separators nor results"),
    ("3.3.0", "OK_datacheck_W_R_CSV"): Bad("neither separators nor results"),
    ("3.3.0", "E_odirect_unaligned_CSV"): Bad("exit code is 255", "nvalid argument", "neither separators nor results"),
    ("3.3.0", "E_block_not_multiple_CSV"): Bad("exit code is 255", "block size must be a multiple"),
    ("3.3.0", "E_kill9_lastrank_CSV"): Bad("exit code is 9", "BAD TERMINATION", "neither separators nor results"),
    ("3.3.0", "E_kill9_rank0_CSV"): Bad("exit code is 9", "BAD TERMINATION", "neither separators nor results"),
    ("3.3.0", "E_nospace_JSON"): Bad("exit code is 255", "No space left", "the JSON is cut"),
    ("3.3.0", "E_invalidopt_JSON"): Bad("nvalid argument: --bogus"),
    ("3.3.0", "E_datacheck_R_corrupt_JSON"): Bad("exit code is 4", "ncorrect data on read"),
    ("3.3.0", "E_read_missing_JSON"): Bad("exit code is 255", "No such file or directory", "the JSON is cut"),
    ("3.3.0", "OK_datacheck_W_R_JSON"): Good(4, "write", 2193.1601, 2208.6565, 0.0126, tasks=2, phase="seq"),
    ("3.3.0", "E_odirect_unaligned_JSON"): Bad("exit code is 255", "nvalid argument", "the JSON is cut"),
    ("3.3.0", "E_block_not_multiple_JSON"): Bad("exit code is 255", "block size must be a multiple"),
    ("3.3.0", "E_kill9_lastrank_JSON"): Bad("exit code is 9", "BAD TERMINATION", "the JSON is cut"),
    ("3.3.0", "E_kill9_rank0_JSON"): Bad("exit code is 9", "BAD TERMINATION", "the JSON is cut"),
    ("3.3.0", "E_sigterm_mpirun_JSON"): Bad("the JSON is cut"),
    ("3.3.0", "E_summary_dir_missing"): Bad("exit code is 1", "Cannot open output file"),
    ("3.3.0", "E_summary_badformat"): Bad("exit code is 1", "Unknown summaryFormat"),
    ("3.3.0", "E_bad_O_directive"): Bad("exit code is 255", "Unrecognized parameter"),
    ("3.3.0", "E_badapi"): Bad("exit code is 1", "recognized I/O API"),
    ("3.3.0", "E_N_gt_np"): Bad("More tasks requested", "2 tasks ran, the command asks for 4"),
    ("3.3.0", "E_perm_CSV"): Bad("exit code is 255", "Permission denied", "neither separators nor results"),
    ("3.3.0", "E_perm_JSON"): Bad("exit code is 255", "Permission denied", "the JSON is cut"),
    ("3.3.0", "E_nompi_singleton"): Good(6, "write", 583.8593, 586.8003, 0.0003, tasks=1, phase="seq"),
    ("3.3.0", "T_timelimit_CSV"): Bad("neither separators nor results"),
    ("main", "E_invalidopt_CSV"): Bad("exit code is 1", "nvalid argument: --bogus"),
    ("main", "E_read_missing_CSV"): Bad("exit code is 255", "No such file or directory"),
    ("main", "OK_datacheck_W_R_CSV"): Good(4, "write", 878.929, 882.0713, 0.0059, tasks=2),
    ("main", "E_odirect_unaligned_CSV"): Bad("exit code is 6", "nvalid argument"),
    ("main", "E_block_not_multiple_CSV"): Bad("exit code is 255", "block size must be a multiple"),
    ("main", "E_kill9_lastrank_CSV"): Bad("exit code is 9", "BAD TERMINATION"),
    ("main", "E_nospace_JSON"): Bad("exit code is 6", "No space left", "the JSON is cut"),
    ("main", "E_invalidopt_JSON"): Bad("exit code is 1", "nvalid argument: --bogus"),
    ("main", "E_datacheck_R_corrupt_JSON"): Bad("exit code is 2", "ncorrect data on read"),
    ("main", "OK_datacheck_W_R_JSON"): Good(4, "write", 1837.1897, 1844.1567, 0.008, tasks=2, phase="seq"),
    ("main", "E_odirect_unaligned_JSON"): Bad("exit code is 6", "nvalid argument", "the JSON is cut"),
    ("main", "E_block_not_multiple_JSON"): Bad("exit code is 255", "block size must be a multiple"),
    ("main", "E_kill9_rank0_JSON"): Bad("exit code is 9", "BAD TERMINATION", "the JSON is cut"),
    ("main", "E_summary_dir_missing"): Bad("exit code is 5", "Cannot open output file"),
    ("main", "E_summary_badformat"): Bad("exit code is 5", "Unknown summaryFormat"),
    ("main", "E_badapi"): Bad("exit code is 255", "recognized I/O API"),
    ("main", "E_perm_CSV"): Bad("exit code is 255", "empty"),
    ("main", "E_perm_JSON"): Bad("exit code is 255", "Permission denied", "the JSON is cut"),
    ("main", "E_nompi_singleton"): Good(6, "write", 4845.4053, 4950.4916, 0.0003, tasks=1, phase="seq"),
    ("main", "T_timelimit_CSV"): Good(2, "write", 2324.197, 2357.0126, 0.0042, tasks=2),
    ("3.3.0", "E_wrap_nerr1_CSV"): Bad("exit code is 2", "ncorrect data on read", "neither separators nor results"),
    ("3.3.0", "E_wrap_nerr2_CSV"): Bad("exit code is 4", "ncorrect data on read", "neither separators nor results"),
    ("3.3.0", "E_wrap_nerr127_CSV"): Bad("exit code is 254", "ncorrect data on read", "neither separators nor results"),
    ("3.3.0", "E_wrap_nerr128_CSV"): Bad("ncorrect data on read", "neither separators nor results"),
    ("3.3.0", "E_wrap_nerr256_CSV"): Bad("ncorrect data on read", "neither separators nor results"),
    ("4.0.0", "E_wrap_nerr1_CSV"): Bad("exit code is 2", "ncorrect data on read"),
    ("4.0.0", "E_wrap_nerr2_CSV"): Bad("exit code is 2", "ncorrect data on read"),
    ("4.0.0", "E_wrap_nerr127_CSV"): Bad("exit code is 2", "ncorrect data on read"),
    ("4.0.0", "E_wrap_nerr128_CSV"): Bad("exit code is 2", "ncorrect data on read"),
    ("4.0.0", "E_wrap_nerr256_CSV"): Bad("exit code is 2", "ncorrect data on read"),
    ("main", "E_wrap_nerr1_CSV"): Bad("exit code is 2", "ncorrect data on read"),
    ("main", "E_wrap_nerr2_CSV"): Bad("exit code is 2", "ncorrect data on read"),
    ("main", "E_wrap_nerr127_CSV"): Bad("exit code is 2", "ncorrect data on read"),
    ("main", "E_wrap_nerr128_CSV"): Bad("exit code is 2", "ncorrect data on read"),
    ("main", "E_wrap_nerr256_CSV"): Bad("exit code is 2", "ncorrect data on read"),
    ("main", "ior_perop"): Good(2, "write", 185.61, 744.25, 0.01797, tasks=2, phase="seq"),
    ("3.0.1", "posix_fpp_seq_1m_np2_i3"): Good(6, "write", 435.56, None, 0.015817, tasks=2, phase="seq"),
    ("3.0.1", "posix_shared_seq_w_r_np2_i3"): Good(6, "write", 575.81, None, 0.002074, tasks=2, phase="seq"),
    ("3.0.1", "posix_shared_rand_128k_np2_i3"): Good(6, "write", 474.45, None, 0.014329, tasks=2, phase="rand"),
    ("3.0.1", "mpiio_shared_np2_i2"): Good(4, "write", 131.69, None, 0.072013, tasks=2, phase="seq"),
    ("3.0.1", "E_kill9_lastrank"): Bad("exit code is 9", "BAD TERMINATION"),
    ("3.0.1", "E_nospace"): Bad("exit code is 255", "No space left"),
    ("3.0.1", "E_read_missing"): Bad("exit code is 255", "No such file"),
    ("3.0.1", "mpiio_coll_v1"): Good(4, "write", 304.84, None, 0.01262, tasks=2, phase="seq"),
    ("3.0.1", "verbose_v2"): Good(6, "write", 262.82, None, 0.014776, tasks=2, phase="seq"),
    ("3.0.1", "verbose_v3"): Good(4, "write", 2348.63, None, 4.5e-05, tasks=2, phase="seq"),
    ("3.0.1", "read_only_existing"): Good(3, "read", 5341.0, None, 0.001133, tasks=2, phase="seq"),
    ("3.0.1", "posix_fpp_odirect_np1_i1"): Good(1, "write", 545.3, None, 0.014671, tasks=1, phase="seq"),
    ("3.0.1", "stonewall_D1_w"): Good(2, "write", 739.56, None, 1.17, tasks=2, phase="seq"),
    ("3.0.1", "E_stonewall_read_eof"): Bad("exit code is 255", "EOF"),
    ("3.0.1", "datacheck_W_R"): Good(4, "write", 676.1, None, 0.009887, tasks=2, phase="seq"),
    ("3.0.1", "read_check_R"): Good(1, "read", 4067.25, None, 0.000983, tasks=1, phase="seq"),
    ("3.0.1", "E_N_gt_np"): Bad("More tasks requested", "2 tasks ran, the command asks for 4"),
    ("3.0.1", "E_badapi"): Bad("exit code is 255", "unrecognized IO API"),
    ("3.0.1", "E_block_not_multiple"): Bad("exit code is 255", "no results"),
    ("3.0.1", "E_sigterm_mpirun"): Bad("exit code is 15", "Terminated"),
    ("3.0.1", "script_two_tests"): Good(8, "write", 5330.0, None, 0.000404, tasks=2, phase="seq"),
    ("3.0.1", "summary_always"): Good(4, "write", 5023.0, None, 0.000481, tasks=2, phase="seq"),
    ("3.1.0", "posix_fpp_seq_1m_np2_i3"): Good(6, "write", 2617.74, None, 0.033982, tasks=2, phase="seq"),
    ("3.1.0", "posix_shared_seq_w_r_np2_i3"): Good(6, "write", 1194.01, None, 0.003546, tasks=2, phase="seq"),
    ("3.1.0", "posix_shared_rand_128k_np2_i3"): Good(6, "write", 1279.99, None, 0.000623, tasks=2, phase="rand"),
    ("3.1.0", "mpiio_shared_np2_i2"): Good(4, "write", 329.96, None, 0.000711, tasks=2, phase="seq"),
    ("3.1.0", "E_kill9_lastrank"): Bad("exit code is 9", "BAD TERMINATION"),
    ("3.1.0", "E_nospace"): Bad("exit code is 255", "No space left"),
    ("3.1.0", "E_read_missing"): Bad("exit code is 255", "no results"),
    ("3.1.0", "mpiio_coll_v1"): Good(4, "write", 141.36, None, 0.087452, tasks=2, phase="seq"),
    ("3.1.0", "verbose_v2"): Good(6, "write", 1818.02, None, 0.005177, tasks=2, phase="seq"),
    ("3.1.0", "verbose_v3"): Good(4, "write", 197.72, None, 0.001222, tasks=2, phase="seq"),
    ("3.1.0", "read_only_existing"): Good(3, "read", 16439.0, None, 0.000656, tasks=2, phase="seq"),
    ("3.1.0", "E_odirect_not_built"): Doubtful("cannot use O_DIRECT"),
    ("3.1.0", "stonewall_D1_w"): Good(2, "write", 1195.2, None, 1.11, tasks=2, phase="seq"),
    ("3.1.0", "E_stonewall_read_eof"): Bad("exit code is 255", "read of iteration 0 is missing"),
    ("3.1.0", "datacheck_W_R"): Good(4, "write", 1379.46, None, 0.000324, tasks=2, phase="seq"),
    ("3.1.0", "read_check_R"): Good(1, "read", 8422.97, None, 0.000475, tasks=1, phase="seq"),
    ("3.1.0", "E_N_gt_np"): Bad("More tasks requested", "2 tasks ran, the command asks for 4"),
    ("3.1.0", "E_badapi"): Bad("exit code is 255", "unrecognized IO API"),
    ("3.1.0", "E_block_not_multiple"): Bad("exit code is 255", "block size must be a multiple"),
    ("3.1.0", "E_sigterm_mpirun"): Bad("exit code is 15", "Terminated"),
    ("3.1.0", "script_two_tests"): Good(8, "write", 223.04, None, 0.000336, tasks=2, phase="seq"),
    ("3.1.0", "summary_always"): Good(4, "write", 8421.0, None, 0.000355, tasks=2, phase="seq"),
    ("3.2.1", "posix_fpp_seq_1m_np2_i3"): Good(6, "write", 259.47, None, 0.003703, tasks=2, phase="seq"),
    ("3.2.1", "posix_shared_seq_w_r_np2_i3"): Good(6, "write", 750.7, None, 0.002027, tasks=2, phase="seq"),
    ("3.2.1", "posix_shared_rand_128k_np2_i3"): Good(6, "write", 1009.47, None, 0.001575, tasks=2, phase="rand"),
    ("3.2.1", "mpiio_shared_np2_i2"): Good(4, "write", 249.32, None, 0.000671, tasks=2, phase="seq"),
    ("3.2.1", "E_kill9_lastrank"): Bad("exit code is 9", "BAD TERMINATION"),
    ("3.2.1", "E_nospace"): Bad("exit code is 255", "no results"),
    ("3.2.1", "E_read_missing"): Bad("exit code is 255", "No such file"),
    ("3.2.1", "stonewall_D1"): Good(2, "write", 1109.44, None, 1.1, tasks=2, phase="seq"),
    ("2.10.3", "posix_fpp_i3"): Bad("the layout of IOR 2.10.3 is not read"),
    ("2.10.3", "verbose_v2_i2"): Bad("the layout of IOR 2.10.3 is not read"),
}
