"""What `iosweep parse fio` must say about every sample in samples/fio/read/manifest.tsv, and where they are.

GOOD has one line per row that must be there: label, host, phase, operations, operations per second, bytes per second,
mean latency (ns) and its 99.5th percentile (ns). The numbers are those that stand in the files (JSON: total_ios, iops,
bw_bytes, clat_ns; of a mixed job the sum of both directions and the mean weighted by the operations), put here by hand
and by a script of ten lines that has nothing in common with the reader. None: must be absent. Names `old_<version>_...`
are of builds of fio's tagged releases, run with old.fio.
"""

import csv
from pathlib import Path
from typing import NamedTuple

SAMPLES = Path(__file__).resolve().parents[1] / "samples/fio"


class Sample(NamedTuple):
    """A run: all its files, and the exit code where it is known."""

    name: str
    exit_code: int | None
    files: dict[str, bytes]
    command: str

    @property
    def report(self) -> str:
        """The file that holds the report."""
        return max(self.files, key=lambda name: len(self.files[name]))


def _content(name: str) -> bytes:
    # samples that the runner's parser is tested with too are one folder up
    here = SAMPLES / "read" / name
    return (here if here.exists() else SAMPLES / name).read_bytes()


with (SAMPLES / "read" / "manifest.tsv").open(encoding="utf-8") as _file:
    ALL = {
        name: Sample(name, int(code) if code else None, {file: _content(file) for file in files.split(",")}, command)
        for name, code, files, command in list(csv.reader(_file, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]
    }

# fmt: off
#: h2 and h7 read extents that were never written, at 4 to 5 times the true rate. They are good: the file alone cannot
#: tell, only a look at the data files can (the runner's check no_holes).
GOOD: dict[str, list[tuple[str, str | None, str | None, int, float, float | None, float, float | None]]] = {
    "c1_client2": [
        ("cs_rr", "127.0.0.1:18761", "rand_mixed", 76250, 37954.206073, 155460427, 43225.854, None),
        ("cs_rr", "127.0.0.1:18762", "rand_mixed", 76618, 38270.729271, 156756906, 42989.813, None),
    ],
    "c2_client2_jsonp": [
        ("cs_rr", "127.0.0.1:18762", "rand_mixed", 63751, 31796.009975, 130236456, 46968.058, None),
        ("cs_rr", "127.0.0.1:18761", "rand_mixed", 63652, 31620.466965, 129517431, 47631.302, None),
    ],
    "c6_client2_eta": [
        ("cs_rr", "127.0.0.1:18761", "rand_mixed", 84435, 42196.401799, 172836461, 42008.557, None),
        ("cs_rr", "127.0.0.1:18762", "rand_mixed", 85752, 42726.457399, 175007568, 41296.933, None),
    ],
    "c7_client2_out": [
        ("cs_rr", "127.0.0.1:18761", "rand_mixed", 89362, 44458.706468, 182102861, 40449.894, None),
        ("cs_rr", "127.0.0.1:18762", "rand_mixed", 90356, 45155.422289, 184956609, 39794.376, None),
    ],
    "c8b_client2_sections_nogr": [
        ("a_read", "127.0.0.1:18761", "seq_read", 5249, 5156.188605, 337915976, 187254.697, 8355840),
        ("a_read", "127.0.0.1:18761", "seq_read", 5941, 5835.952849, 382465005, 169575.41, 7110656),
        ("b_write", "127.0.0.1:18761", "rand_write", 46240, 46055.776892, 188644462, 12332.536, 5536),
        ("b_write", "127.0.0.1:18761", "rand_write", 53683, 53575.848303, 219446674, 10960.381, 5536),
        ("c_mix", "127.0.0.1:18761", "rand_mixed", 20031, 19852.329038, 81315139, 36184.748, None),
        ("c_mix", "127.0.0.1:18761", "rand_mixed", 14424, 14295.341923, 58553719, 52406.044, None),
        ("a_read", "127.0.0.1:18762", "seq_read", 6237, 6031.914894, 395307574, 157753.985, 6651904),
        ("a_read", "127.0.0.1:18762", "seq_read", 6257, 6232.071713, 408425051, 157866.306, 6914048),
        ("b_write", "127.0.0.1:18762", "rand_write", 54096, 53139.489194, 217659347, 11560.971, 5728),
        ("b_write", "127.0.0.1:18762", "rand_write", 52789, 52526.368159, 215148003, 10978.722, 5664),
        ("c_mix", "127.0.0.1:18762", "rand_mixed", 8716, 8587.192118, 35173137, 94678.536, None),
        ("c_mix", "127.0.0.1:18762", "rand_mixed", 10339, 10186.206897, 41722702, 82935.824, None),
    ],
    "g2_newgroup": [
        ("reader", None, "rand_read", 8745, 8736.263736, 35783736, 113387.212, 4014080),
        ("writer", None, "seq_write", 69761, 69552.342971, 4558182348, 11060.489, 41728),
    ],
    "h2_read_unwritten": [
        ("h", None, "rand_read", 295886, 147647.704591, 604764998, 22053.012, 10432),
    ],
    "h6": [
        ("h", None, "rand_write", 20462, 20441.558442, 83728623, 184483.508, 4014080),
    ],
    "h7_read_partial": [
        ("h", None, "rand_read", 239121, 119500.749625, 489475070, 29691.641, 103936),
    ],
    "h8": [
        ("h", None, "seq_write", 256, 547.008547, 573580034, 1814949.113, 8028160),
    ],
    "m1_nogr": [
        ("fast", None, "seq_read", 1124256, 561286.070894, 2299027746, 1409.21, 1208),
        ("slow", None, "rand_read", 999, 498.751872, 2042887, 620024.031, 5079040),
    ],
    "md12_stat_nofsync": [
        ("md", None, "stat", 4000, 21390.374332, None, 3400.631, 6560),
    ],
    "md13_stat_again_timed": [
        ("md", None, "stat", 44499, 22116.799205, None, 5315.294, 5216),
    ],
    "md13b_stat_42": [
        ("md", None, "stat", 52337, 26142.357642, None, 5595.971, 6752),
    ],
    "md14_delete": [
        ("md", None, "delete", 4000, 17857.142857, None, 39987.917, 78336),
    ],
    "md15_create_timed": [
        ("md", None, "create", 1934, 961.232604, None, 1941501.321, 16187392),
    ],
    "md16_tmpfs_filecreate": [
        ("md", None, "create", 4000, 17467.248908, None, 19605.755, 20864),
    ],
    "md16_tmpfs_filedelete": [
        ("md", None, "delete", 4000, 17316.017316, None, 13874.451, 14656),
    ],
    "md16_tmpfs_filestat": [
        ("md", None, "stat", 4000, 19230.769231, None, 7368.274, 5984),
    ],
    "md1_create": [
        ("md", None, "create", 4000, 6791.171477, None, 285976.948, 8159232),
    ],
    "md4_delete_fresh": [
        ("md", None, "delete", 4000, 613.873542, None, 3103596.175, 9371648),
    ],
    "md7_dircreate42": [
        ("md", None, "dir_create", 4000, 21390.374332, None, 85134.804, 5210112),
    ],
    "md8_dirdelete42": [
        ("md", None, "dir_delete", 4000, 495.540139, None, 3950082.231, 23986176),
    ],
    "n3_eta_always": [
        ("n", None, "rand_read", 4222, 4217.782218, 17276035, 235090.608, 5931008),
    ],
    "n5_rtimeless": [
        ("n", None, "rand_read", 2048, 10448.979592, 42799020, 95115.289, 3162112),
    ],
    "o1_fmt_before": [
        ("cs_rr", "127.0.0.1:18762", "rand_mixed", 74434, 37198.400799, 152364649, 41671.872, None),
        ("cs_rr", "127.0.0.1:18761", "rand_mixed", 75957, 37959.520239, 155482194, 40680.66, None),
    ],
    "o2_fmt_after": [
        ("cs_rr", "127.0.0.1:18762", "rand_mixed", 74261, 37037.905236, 151707259, 42780.105, None),
        ("cs_rr", "127.0.0.1:18761", "rand_mixed", 74845, 37403.798101, 153205956, 43398.879, None),
    ],
    "o3_out_before": [
        ("cs_rr", "127.0.0.1:18762", "rand_mixed", 69778, 34680.914513, 142053025, 43597.812, None),
        ("cs_rr", "127.0.0.1:18761", "rand_mixed", 69951, 34818.815331, 142617866, 43722.766, None),
    ],
    "p1_plist": [
        ("p", None, "rand_read", 9292, 9282.717283, 38022009, 106670.535, 4014080),
    ],
    "p1b_both": [
        ("p", None, "rand_read", 49634, 49584.415584, 203097766, 154790.911, 2473984),
    ],
    "p1c_default_libaio": [
        ("p", None, "rand_read", 45015, 44970.02997, 184197242, 171847.155, 3522560),
    ],
    "rt1": [
        ("rt", None, "rand_read", 46206, 23091.454273, 94588737, 165912.171, 4816896),
    ],
    "rt3": [
        ("rt", None, "rand_read", 23666, 23642.357642, 96839096, 163577.437, 4685824),
        ("rt", None, "rand_read", 23653, 23629.370629, 96785902, 163657.093, 5144576),
    ],
    "rt4": [
        ("rt", None, "rand_read", 4096, 27306.666667, 111848106, 139214.391, 4014080),
    ],
    "rt7": [
        ("rt", None, "rand_read", 32768, 24326.651819, 99641965, 157375.391, 4816896),
    ],
    "s1_single_json": [
        ("j1", None, "rand_read", 8958, 8949.050949, 36655312, 110740.518, 3981312),
    ],
    "s2_nj4_nogr": [
        ("j4", None, "rand_read", 9588, 9578.421578, 39233214, 103500.151, 1957888),
        ("j4", None, "rand_read", 9644, 9634.365634, 39462361, 102562.119, 1843200),
        ("j4", None, "rand_read", 9375, 9365.634366, 38361638, 105290.175, 2007040),
        ("j4", None, "rand_read", 9487, 9477.522478, 38819932, 104667.412, 2023424),
    ],
    "s3_normaljson": [
        ("a_read", None, "seq_read", 27242, 27133.466135, 1778218836, 72799.642, 5144576),
        ("b_write", None, "seq_write", 84558, 83720.792079, 5486725829, 19534.345, 19072),
        ("c_rr", None, "rand_mixed", 16429, 16412.587413, 67225957, 39764.576, None),
    ],
    "s3_stonewall": [
        ("a_read", None, "seq_read", 21510, 21402.985075, 1402666029, 92411.635, 5865472),
        ("b_write", None, "seq_write", 48157, 48108.891109, 3152864287, 32801.298, 142336),
        ("c_rr", None, "rand_mixed", 14185, 14156.686627, 57985788, 58550.7, None),
    ],
    "s3_stonewall_nojson_eta": [
        ("a_read", None, "seq_read", 22330, 22285.429142, 1460497884, 88342.347, 5144576),
        ("b_write", None, "seq_write", 55193, 54918.40796, 3599132784, 31661.232, 31360),
        ("c_rr", None, "rand_mixed", 15773, 15757.242757, 64541665, 51185.768, None),
    ],
    "ss1": [
        ("ss", None, "rand_read", 116016, 23773.770492, 97377363, 161107.04, 5341184),
    ],
    "ss2": [
        ("ss", None, "rand_read", 94520, 23624.093977, 96764288, 162058.148, 5144576),
    ],
    "v20_client2_sections": [
        ("a_read", "127.0.0.1:18781", "seq_read", 17522, 17434.825871, 1142608748, 112437.261, 5668864),
        ("b_write", "127.0.0.1:18781", None, 114957, 113258.128079, 463905292, 10277.429, 7072),
        ("c_mix", "127.0.0.1:18781", None, 39042, 38276.470588, 156780423, 43341.055, None),
        ("a_read", "127.0.0.1:18782", "seq_read", 16740, 16673.306773, 1092701832, 117662.279, 5996544),
        ("b_write", "127.0.0.1:18782", None, 80721, 78675.438596, 322254596, 16949.059, 6496),
        ("c_mix", "127.0.0.1:18782", None, 40527, 40486.513487, 165832759, 38765.099, None),
    ],
    "v42_client2_sections": [
        ("a_read", "127.0.0.1:18771", "seq_read", 17206, 17103.379722, 1120887093, 114231.12, 5341184),
        ("b_write", "127.0.0.1:18771", None, 75119, 73863.3235, 302544173, 13350.685, 5472),
        ("c_mix", "127.0.0.1:18771", None, 38996, 38918.163673, 159408798, 43994.034, None),
        ("a_read", "127.0.0.1:18772", "seq_read", 18999, 18980.01998, 1243874589, 103085.331, 5013504),
        ("b_write", "127.0.0.1:18772", None, 76771, 76237.33863, 312268139, 13551.792, 5536),
        ("c_mix", "127.0.0.1:18772", None, 38996, 38918.163673, 159408798, 44196.035, None),
    ],
    "w_ext4": [
        ("read_throughput", None, "seq_read", 2469, 1230.807577, 1290595286, 3232559.741, 5865472),
        ("write_throughput", None, "seq_write", 5829, 2910.134798, 3051497505, 1347500.772, 5537792),
        ("read_iops", None, "rand_read", 54573, 27259.240759, 111653850, 206298.279, 3850240),
        ("write_iops", None, "rand_write", 53973, 26932.634731, 110316071, 201194.986, 3653632),
        ("read_latency", None, "rand_read", 11848, 5915.127309, 24228361, 158464.804, 3784704),
        ("write_latency", None, "rand_write", 14258, 7125.437281, 29185791, 128624.842, 3883008),
    ],
    "w_ext4_rerun": [
        ("read_throughput", None, "seq_read", 2323, 1159.760359, 1216096878, 3432447.697, 14221312),
        ("write_throughput", None, "seq_write", 4476, 2236.881559, 2345540317, 1763625.782, 17432576),
        ("read_iops", None, "rand_read", 71960, 35944.055944, 147226853, 154167.315, 3489792),
        ("write_iops", None, "rand_write", 57160, 28508.72818, 116771750, 195584.832, 4145152),
        ("read_latency", None, "rand_read", 24863, 12425.287356, 50893977, 70611.913, 1990656),
        ("write_latency", None, "rand_write", 13346, 6669.665167, 27318948, 138400.12, 2834432),
    ],
    "w_overlay": [
        ("read_throughput", None, "seq_read", 1911, 955.022489, 1001413661, 4169737.31, 9895936),
        ("write_throughput", None, "seq_write", 5537, 2767.116442, 2901531890, 1382373.126, 6389760),
        ("read_iops", None, "rand_read", 46084, 22984.538653, 94144670, 247430.258, 4489216),
        ("write_iops", None, "rand_write", 49118, 24522.216675, 100442999, 228944.094, 5210112),
        ("read_latency", None, "rand_read", 15347, 7669.665167, 31414948, 119822.897, 3817472),
        ("write_latency", None, "rand_write", 13251, 6622.188906, 27124485, 138550.374, 4292608),
    ],
    "w_tmpfs": [
        ("read_throughput", None, "seq_read", 11648, 5818.181818, 6100805818, 681473.386, 6979584),
        ("write_throughput", None, "seq_write", 10683, 5322.869955, 5581433686, 731862.492, 8224768),
        ("read_iops", None, "rand_read", 201069, 100333.832335, 410967377, 48043.328, 2539520),
        ("write_iops", None, "rand_write", 239082, 119481.25937, 489395238, 44068.391, 1777664),
        ("read_latency", None, "rand_read", 92832, 46392.803598, 190024923, 16836.016, 39168),
        ("write_latency", None, "rand_write", 81195, 40577.211394, 166204257, 20772.511, 83456),
    ],
    "own_rand_read": [
        ("rand_read", None, "rand_read", 65471, 65405.594406, 267901314, 117780.597, 2801664),
    ],
    "own_rand_mixed": [
        ("rand_mixed", None, "rand_mixed", 54425, 54208.167331, 222036652, 142346.636, None),
    ],
    "o4": [
        ("cs_rr", "127.0.0.1:18762", "rand_mixed", 75395, 37491.297862, 153564355, 39081.708, None),
        ("cs_rr", "127.0.0.1:18761", "rand_mixed", 75653, 37807.596202, 154859913, 38615.573, None),
    ],
    # text reports, by hand: IOPS is operations / time, and rates have the digits of BW= or of bytes / time
    "own_text": [
        ("reads", None, "rand_read", 18606, 18606 / 1.001, 18606 * 4096 / 1.001, 323194.89, 5211e3),
        ("stat", None, "stat", 804865, 804865 / 0.965, None, 528.76, 612),
    ],
    "own_text_client": [
        ("a", "client01", "rand_mixed", 3891050, 3891050 / 1.004, 3891050 * 4096 / 1.004,
         (1946001 * 49.67 + 1945049 * 52.32) / 3891050, None),
        ("b", "client01", "seq_write", 840288, 840288 / 1.001, 840288 * 65536 / 1.001, 110.96, 59),
        ("a", "client01", "rand_mixed", 3510421, 3510421 / 1.001, 3510421 * 4096 / 1.001,
         (1755599 * 64.54 + 1754822 * 67.97) / 3510421, None),
        ("b", "client01", "seq_write", 731008, 731008 / 1.003, 731008 * 65536 / 1.003, 72.02, 59),
    ],
    "seed_read_throughput": [
        ("read_throughput", None, None, 2750270, 2750270 / 300.004, 9167 * 2**20, 3482.93e3, 7046e3),
    ],
    "seed_write_throughput": [
        ("write_throughput", None, None, 2110493, 2110493 / 300.005, 7035 * 2**20, 4505.62e3, 8979e3),
    ],
    "seed_read_iops": [("read_iops", None, None, 117088775, 117088775 / 300.002, 1525 * 2**20, 486.61e3, 717e3)],
    "seed_write_iops": [("write_iops", None, None, 86398871, 86398871 / 300.003, 1125 * 2**20, 659.20e3, 1614e3)],
    "seed_read_latency": [
        ("read_latency", None, None, 1295643, 1295643 / 300.001, 5061 * 2**20 / 300.001, 229.09e3, 334e3),
    ],
    "seed_write_latency": [
        ("write_latency", None, None, 1314929, 1314929 / 300.001, 5136 * 2**20 / 300.001, 226.21e3, 293e3),
    ],
    "seed_small_write_latency": [
        ("FioWrites4KSingleThread", None, None, 131562, 131562 / 70.001, 7518 * 2**10, 529.00e3, 766e3),
    ],
    "seed_small_write_latency_markdown": [
        ("FioWrites4KSingleThread", None, None, 131562, 131562 / 70.001, 7518 * 2**10, 529.00e3, 766e3),
    ],
    # fio 2.2 to 3.1: bytes from KiB up to 2.16, latencies from us up to 2.21; 2.2.10 prints no options
    "old_2.2.10_json": [
        ("seqread", None, None, 97983, 97205.36, 6370450285, 9660.0, 6000),
        ("randwrite", None, None, 15290, 15259.48, 62502834, 254720.0, 5152000),
        ("mix", None, None, 17977, 17959.04, 73560230, 215286.521, None),
        ("four", None, None, 970383, 959824.94, 3931442896, 3250.0, 72000),
    ],
    "old_2.8_json": [
        ("seqread", None, "seq_read", 59692, 59632.37, 3908066845, 15800.0, 9000),
        ("randwrite", None, "rand_write", 9067, 8651.72, 35437435, 454540.0, 10432000),
        ("mix", None, "rand_mixed", 21031, 20968.09, 85885319, 183803.279, None),
        ("four", None, "rand_read", 506853, 499362.56, 2045389052, 6410.0, 93000),
    ],
    "old_2.16_json": [
        ("seqread", None, "seq_read", 52157, 51949.203187, 3404542980, 18943.613, 45000),
        ("randwrite", None, "rand_write", 13882, 13868.131868, 56803868, 281231.595, 6752000),
        ("mix", None, "rand_mixed", 35102, 35066.933067, 143634157, 106640.334, None),
        ("four", None, "rand_read", 802737, 794789.108911, 3255456190, 4013.435, 90000),
    ],
    "old_2.21_json": [
        ("seqread", None, "seq_read", 134764, 134629.370629, 8823070433, 7132.068, 6000),
        ("randwrite", None, "rand_write", 23129, 23105.894106, 94641742, 166615.029, 4640000),
        ("mix", None, "rand_mixed", 27186, 27158.841159, 111242612, 140323.144, None),
        ("four", None, "rand_read", 606184, 601970.20854, 2465669974, 5786.68, 243000),
    ],
    "old_2.21_plus": [
        ("plus", None, "rand_read", 17455, 17437.562438, 71424255, 103797.995, 3120000),
    ],
    "old_3.0_plus": [
        ("plus", None, "rand_read", 15084, 15068.931069, 61722341, 120886.295, 3686400),
    ],
    "old_3.1_json": [
        ("seqread", None, "seq_read", 127473, 126965.139442, 8320787378, 7457.932, 43264),
        ("randwrite", None, "rand_write", 13020, 13006.993007, 53276643, 300260.319, 7634944),
        ("mix", None, "rand_mixed", 17959, 17941.058941, 73486576, 216413.547, None),
        ("four", None, "rand_read", 774453, 770600.0, 3156377600, 4366.206, 78336),
    ],
    "old_2.1.11_text": [
        ("seqread", None, "seq_read", 19073, 19073 / 1.001, 19073 * 65536 / 1.001, 51760.00, 2640000),
        ("randwrite", None, "rand_write", 24466, 24466 / 1.001, 24466 * 4096 / 1.001, 160770.00, 3280000),
        ("mix", None, "rand_mixed", 33504, 23978 / 1.004 + 9526 / 1.004, 23978 * 4096 / 1.004 + 9526 * 4096 / 1.004,
         (23978 * 72490.00 + 9526 * 227520.00) / 33504, None),
        ("four", None, "rand_read", 25674, 25674 / 1.001, 25674 * 4096 / 1.001, 155430.00, 5472000),
    ],
    "old_2.2.10_text": [
        ("seqread", None, "seq_read", 141675, 141675 / 1.001, 141675 * 65536 / 1.001, 6690.00, 4000),
        ("randwrite", None, "rand_write", 27225, 27225 / 1.001, 27225 * 4096 / 1.001, 142250.00, 3696000),
        ("mix", None, "rand_mixed", 48950, 35028 / 1.0 + 13922 / 1.0, 35028 * 4096 / 1.0 + 13922 * 4096 / 1.0,
         (35028 * 65580.00 + 13922 * 105920.00) / 48950, None),
        ("four", None, "rand_read", 1272788, 1272788 / 1.002, 1272788 * 4096 / 1.002, 2440.00, 58000),
    ],
    "old_2.16_text": [
        ("seqread", None, "seq_read", 72841, 72841 / 1.001, 72841 * 65536 / 1.001, 12980.00, 205000),
        ("randwrite", None, "rand_write", 11724, 11724 / 1.001, 11724 * 4096 / 1.001, 334750.00, 6240000),
        ("mix", None, "rand_mixed", 14587, 10147 / 1.001 + 4440 / 1.001, 10147 * 4096 / 1.001 + 4440 * 4096 / 1.001,
         (10147 * 223240.00 + 4440 * 374550.00) / 14587, None),
        ("four", None, "rand_read", 632031, 632031 / 1.007, 632031 * 4096 / 1.007, 5390.00, 85000),
    ],
    "old_2.21_text": [
        ("seqread", None, "seq_read", 98179, 98179 / 1.009, 98179 * 65536 / 1.009, 10030.00, 6000),
        ("randwrite", None, "rand_write", 13453, 13453 / 1.004, 13453 * 4096 / 1.004, 291990.00, 6048000),
        ("mix", None, "rand_mixed", 32007, 22500 / 1.001 + 9507 / 1.001, 22500 * 4096 / 1.001 + 9507 * 4096 / 1.001,
         (22500 * 87810.00 + 9507 * 190480.00) / 32007, None),
        ("four", None, "rand_read", 1109155, 1109155 / 1.004, 1109155 * 4096 / 1.004, 2880.00, 63000),
    ],
    "old_3.0_text": [
        ("seqread", None, "seq_read", 133951, 133951 / 1.0, 133951 * 65536 / 1.0, 7100.00, 41000),
        ("randwrite", None, "rand_write", 25374, 25374 / 1.001, 25374 * 4096 / 1.001, 150184.51, 3949000),
        ("mix", None, "rand_mixed", 40223, 28131 / 1.001 + 12092 / 1.001,
         28131 * 4096 / 1.001 + 12092 * 4096 / 1.001, (28131 * 88083.43 + 12092 * 101880.00) / 40223, None),
        ("four", None, "rand_read", 1273720, 1273720 / 1.006, 1273720 * 4096 / 1.006, 2495.74, 70144),
    ],
}

#: each string must be part of a problem
BAD: dict[str, tuple[str, ...]] = {
    "c13_client_serverkill": ("host 127.0.0.1 disconnected", "fio ended with exit code 1"),
    "c9_client_dead": ("no connection to 127.0.0.1:18799",),
    "c9b_client_baddns": ("host no-such-host cannot be resolved", "fio ended with exit code 1"),
    "e1_enospc_layout": (
        "the file system was full: ENOSPC on laying out file",
        "a worker failed: err=28/file:filesetup.c:240, func=write, error=No space left on device",
        "fio ended with exit code 1",
        "e: fio reports error 28",
    ),
    "e2_enospc_write": (
        "a worker failed: err=28/file:io_u.c:1876, func=io_u error, error=No space left on device",
        "an I/O failed: /mnt/pfs/fio/tiny/e.0.0: No space left on device: write offset=83",
        "fio ended with exit code 1",
        "e: fio reports error 28",
    ),
    "e3_enospc_nj4": (
        "a worker failed: err=28/file:io_u.c:1876, func=io_u error, error=No space left on device",
        "an I/O failed: /mnt/pfs/fio/tiny/e.0.0: No space left on device: write offset=0,",
        "an I/O failed: /mnt/pfs/fio/tiny/e.3.0: No space left on device: write offset=0,",
        "fio ended with exit code 2",
        "fio reports error 28",
    ),
    "e3n_enospc_nj4_nogr": (
        "a worker failed: err=28/file:io_u.c:1876, func=io_u error, error=No space left on device",
        "an I/O failed: /mnt/pfs/fio/tiny/e.1.0: No space left on device: write offset=0,",
        "an I/O failed: /mnt/pfs/fio/tiny/e.3.0: No space left on device: write offset=0,",
        "fio ended with exit code 2",
        "fio reports error 28",
    ),
    "e4_enospc_fallocdefault": (
        "a worker failed: err=28/file:io_u.c:1876, func=io_u error, error=No space left on device",
        "an I/O failed: /mnt/pfs/fio/tiny/e.0.0: No space left on device: write offset=83",
        "fio ended with exit code 1",
        "e: fio reports error 28",
    ),
    "e5_enospc_continue": (
        "a worker failed: err=28/file:io_u.c:1876, func=io_u error, error=No space left on device",
        "an I/O failed: /mnt/pfs/fio/tiny/e.0.0: No space left on device: write offset=83",
        "fio ended with exit code 1",
        "e: fio reports error 28",
    ),
    "e6_enospc_client": (
        "an I/O failed: /mnt/pfs/fio/tiny/127.0.0.1.e.0.0: No space left on device: write",
        "a worker failed: err=28/file:io_u.c:1876, func=io_u error, error=No space left on device",
        "fio ended with exit code 1",
        "e on 127.0.0.1:18761: fio reports error 28",
    ),
    "e7_badfile": ("e: ran for 1 ms",),
    "e8_readmissing": (
        "a file was not there: file creation disallowed by allow_file_create=0",
        "fio ended with exit code 1",
        "e: no read was done",
    ),
    "h1": ("nothing was measured: every section only laid out files",),
    "h11_missing_nocreate": (
        "a file was not there: file creation disallowed by allow_file_create=0",
        "fio ended with exit code 1",
        "h: no read was done",
    ),
    "h4": ("nothing was measured: every section only laid out files",),
    "hung": ("fio ended with exit code 124", "cs_rr on 127.0.0.1:18762: ran for 613.45 s of 3.00 s"),
    "k1_int": (
        "fio was interrupted (signal 2)",
        "fio ended with exit code 128",
        "k: ran for 0.96 s of 20.00 s: interrupted",
    ),
    "k3_kill": ("fio printed nothing", "fio ended with exit code 137"),
    "k4_kill_output": ("fio printed nothing", "fio ended with exit code 137"),
    "k5_timeout": (
        "fio was interrupted (signal 15)",
        "fio ended with exit code 124",
        "k: ran for 1.04 s of 20.00 s: interrupted",
    ),
    "k6_timeoutk": ("fio printed nothing", "fio ended with exit code 137"),
    "k7_client_int": (
        "cs_rr on 127.0.0.1:18762: no read was done",
        "cs_rr on 127.0.0.1:18761: ran for 0.10 s of 8.00 s: interrupted",
    ),
    "l11_local_badopt": (
        "fio refused the option foo_bar=3",
        "fio refused a section: job global dropped",
        "fio ended with exit code 1",
    ),
    "l12_local_badeng": ("fio did not start: engine windowsaio not loadable", "fio ended with exit code 1"),
    "l13_nofile": ("fio did not start: unable to open 'nofile.fio' job file", "fio ended with exit code 1"),
    "m2_gr": ("fast: the entry adds up the time of about 2 workers, but numjobs is not given: gr",),
    "md7_dircreate": ("fio did not start: engine dircreate not loadable", "fio ended with exit code 1"),
    "n10_output_enospc_dest": ("fio printed nothing",),
    "n7_output_enospc": (
        "an I/O failed: /mnt/pfs/fio/tiny/e.0.0: No space left on device: write offset=83",
        "fio ended with exit code 1",
        "e: fio reports error 28",
    ),
    "n7b": (
        "an I/O failed: /mnt/pfs/fio/tiny/e.0.0: No space left on device: write offset=83",
        "fio ended with exit code 1",
        "e: fio reports error 28",
    ),
    "n7c": (
        "an I/O failed: /mnt/pfs/fio/tiny/e.0.0: No space left on device: write offset=83",
        "a worker failed: err=28/file:io_u.c:2018, func=io_u error, error=No space left on device",
        "fio ended with exit code 1",
        "e: fio reports error 28",
    ),
    "n7d": (
        "an I/O failed: /mnt/pfs/fio/tiny/e.0.0: No space left on device: write offset=83",
        "fio ended with exit code 1",
        "e: fio reports error 28",
    ),
    "n7e": (
        "an I/O failed: /mnt/pfs/fio/tiny/e.0.0: No space left on device: write offset=83",
        "fio ended with exit code 1",
        "e: fio reports error 28",
    ),
    "n7g": ("e: ran for 1 ms",),
    "n7i": (
        "an I/O failed: /mnt/pfs/fio/tiny/e.0.0: No space left on device: write offset=83",
        "a worker failed: err=28/file:io_u.c:1876, func=io_u error, error=No space left on device",
        "fio ended with exit code 1",
        "e: fio reports error 28",
    ),
    "n8_output_dir_missing": (
        "fio did not start: output file open error: No such file or directory",
        "fio ended with exit code 1",
    ),
    "n9_output_full": ("fio printed nothing",),
    "rt5": ("rt: ran for 17 ms",),
    "st_client": ("n on 127.0.0.1:18762: ran for 1 ms", "n on 127.0.0.1:18761: ran for 1 ms"),
    "st_client1": ("n on 127.0.0.1: ran for 1 ms",),
    "st_local": ("n: ran for 1 ms",),
    "v33_client_v42server": ("client and server are of different versions (120 != 97)", "fio ended with exit code 1"),
    "v42_client_v33server": (
        "host 127.0.0.1 disconnected",
        "client and server are of different versions (97 != 120)",
        "client and server do not understand each other (bad crc on command)",
        "fio ended with exit code 1",
    ),
    "vf1": ("v: ran for 12 ms",),
    "vf2_ok": ("v: ran for 11 ms",),
    "n2": ("n: asked for depth 16, engine psync does one at a time",),
    "n2b": ("n: ran for 9 ms",),
    "n7k": ("fio was interrupted (signal 2)", "k: ran for 0.94 s of 10.00 s: interrupted"),
    "n7l": ("fio printed nothing",),
    "n7m": ("fio printed nothing",),
    "n7s": ("e: ran for 1 ms",),
    "seed_all_clients": ("there is only fio's sum over all clients, which adds up unlike tests: the hosts'",),
    "old_2.1.11_json": ("fio-2.1.11 is not read: nothing in its JSON tells whether its run times are ms or us",),
    "old_2.1.11_error": ("fio ended with exit code 1", "e: fio reports error 27"),
    "old_2.8_error": (
        "a worker failed: err=27/file:io_u.c:1663, func=io_u error, error=File too large",
        "an I/O failed: /mnt/scratch/fio2rec/e.0.0: File too large: write offset=1048576",
        "fio ended with exit code 1",
        "e: fio reports error 27",
    ),
    "old_2.8_int": (
        "fio was interrupted (signal 2)",
        "fio ended with exit code 124",
        "k: ran for 0.74 s of 20.00 s: interrupted",
    ),
    "old_2.8_cut_text": ("mix: a line that does not belong into the report: |  1.00th",),
    "old_2.16_cut_json": ("the JSON is cut or damaged",),
}
# fmt: on
#: of BAD: what was measured stays, in rows that are suspect
SUSPECT = {
    "c13_client_serverkill",
    "c9_client_dead",
    "hung",
    "k1_int",
    "k5_timeout",
    "k7_client_int",
    "m2_gr",
    "n2",
    "n7k",
    "old_2.8_int",
    "old_2.8_cut_text",
}  # fmt: skip
