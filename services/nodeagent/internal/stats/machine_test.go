package stats

import (
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// proc returns the files of a machine with 8 GiB of memory.
func proc() fstest.MapFS {
	files := fstest.MapFS{}
	for name, text := range map[string]string{
		"stat": "cpu  100 20 30 4000 50 6 7 8 90 10\ncpu0 1 1 1 1 1 1 1 1 1 1\nintr " + strings.Repeat("0 ", 4<<10) + "\nbtime 1700000000\n",
		"meminfo": "MemTotal:        8388608 kB\nMemFree:         4194304 kB\nInactive(file):  1048576 kB\nAnonPages:        524288 kB\n" +
			"SwapTotal:       2097152 kB\nSwapFree:        1048576 kB\nHugePages_Total:      10\nHugepagesize:       2048 kB\n",
		"vmstat":                 "pgfault 1234\npgmajfault 56\n",
		"loadavg":                "0.10 0.20 0.30 2/345 6789\n",
		"sys/kernel/pid_max":     "4194304\n",
		"sys/kernel/threads-max": "127000\n",
		"pressure/cpu":           "some avg10=1.50 avg60=2.50 avg300=3.50 total=1000\nfull avg10=0.00 avg60=0.00 avg300=0.25 total=7\n",
		"net/dev": "Inter-|   Receive                                                |  Transmit\n face |bytes    packets errs\n" +
			"    lo: 1 1 1 0 0 0 0 0 1 1 1 0 0 0 0 0\n  eth0: 100 10 1 0 0 0 0 0 200 20 2 0 0 0 0 0\nvethab: 5 5 5 0 0 0 0 0 5 5 5 0 0 0 0 0\n",
	} {
		files[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return files
}

// TestMachine reads every file of the kernel.
func TestMachine(t *testing.T) {
	m, now := machine{proc()}, metav1.Now()
	used, boot, err := m.processor()
	if want := uint64(100+20+30+6+7+8) * 1e7; err != nil || used != want || boot.Unix() != 1700000000 {
		t.Errorf("the CPU time is %d, want %d; booted %v, %v", used, want, boot, err)
	}
	memory, swap, err := m.memory(now)
	if err != nil {
		t.Fatal(err)
	}
	const gib = 1 << 30
	for name, c := range map[string]struct{ got, want uint64 }{
		"usage": {*memory.UsageBytes, 4 * gib}, "working set": {*memory.WorkingSetBytes, 3 * gib}, "rss": {*memory.RSSBytes, gib / 2},
		"available, without huge pages": {*memory.AvailableBytes, 5*gib - 20<<20}, "faults": {*memory.PageFaults, 1234},
		"major faults": {*memory.MajorPageFaults, 56}, "swap": {*swap.SwapUsageBytes, gib}, "free swap": {*swap.SwapAvailableBytes, gib},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %d, want %d", name, c.got, c.want)
		}
	}
	if p := m.pressure("cpu"); p == nil || p.Some.Avg10 != 1.5 || p.Some.Avg60 != 2.5 || p.Some.Avg300 != 3.5 || p.Some.Total != 1000 || p.Full.Total != 7 {
		t.Errorf("the pressure is %+v", p)
	}
	if limits := m.processes(now); *limits.MaxPID != 127000 || *limits.NumOfRunningProcesses != 345 {
		t.Errorf("processes: %d of %d", *limits.NumOfRunningProcesses, *limits.MaxPID)
	}
	network := m.network(now)
	if len(network.Interfaces) != 1 || network.Name != "eth0" || *network.RxBytes != 100 || *network.RxErrors != 1 || *network.TxBytes != 200 || *network.TxErrors != 2 {
		t.Errorf("the network is %+v", network)
	}
}

// TestMachineFaults reads files that are missing or have other contents.
func TestMachineFaults(t *testing.T) {
	for name, c := range map[string]struct{ file, text, want string }{
		"no CPU":       {"stat", "btime 1\n", "no line cpu"},
		"bad CPU":      {"stat", "cpu a b c d e f g h i\n", "invalid syntax"},
		"bad boot":     {"stat", "cpu 1 1 1 1 1 1 1 1 1\nbtime never\n", "booted"},
		"no memory":    {"meminfo", "MemTotal: 1 kB\n", "no line MemFree"},
		"endless line": {"stat", "cpu " + strings.Repeat("1", maxFile+1), "too long"},
	} {
		files := proc()
		files[c.file] = &fstest.MapFile{Data: []byte(c.text)}
		p := New(Config{Proc: files})
		if _, err := p.node(metav1.Now()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	none := machine{fstest.MapFS{}}
	if _, _, err := none.processor(); err == nil {
		t.Error("a machine without files has CPU time")
	}
	if limits := none.processes(metav1.Now()); limits.MaxPID != nil || limits.NumOfRunningProcesses != nil {
		t.Errorf("a machine without files has %+v", limits)
	}
	if none.network(metav1.Now()) != nil || none.pressure("io") != nil {
		t.Error("a machine without files has a network or pressure")
	}
}

// TestThisMachine reads the files of the kernel that the test runs on, if it has them.
func TestThisMachine(t *testing.T) {
	kernel := os.DirFS("/proc")
	if _, err := fs.Stat(kernel, "meminfo"); err != nil {
		t.Skip("this machine has no /proc/meminfo")
	}
	node, err := New(Config{Proc: kernel, NodeName: "n"}).node(metav1.Now())
	if err != nil {
		t.Fatal(err)
	}
	if *node.CPU.UsageCoreNanoSeconds == 0 || *node.Memory.WorkingSetBytes < 1<<20 || time.Since(node.StartTime.Time) <= 0 || node.NodeName != "n" {
		t.Errorf("this machine is %+v", node)
	}
}

// TestRates computes rates from samples.
func TestRates(t *testing.T) {
	var r rates
	at := time.Unix(1700000000, 0)
	step := func(after time.Duration, totals map[string]uint64) {
		round := map[string]sample{}
		for key, total := range totals {
			round[key] = sample{at: at.Add(after), total: total}
		}
		r.replace(round)
	}
	want := func(key string, rate uint64, known bool) {
		t.Helper()
		got := r.of(key)
		if (got != nil) != known || known && *got != rate {
			t.Errorf("%s: the rate is %v, want %d %t", key, got, rate, known)
		}
	}
	step(0, map[string]uint64{"a": 1e9, "b": 5e9})
	want("a", 0, false)
	step(10*time.Second, map[string]uint64{"a": 6e9, "b": 1e9, "c": 1})
	want("a", 5e8, true)
	want("b", 0, false) // It started again.
	want("c", 0, false)
	step(10*time.Second, map[string]uint64{"a": 7e9}) // At the same time: no new rate.
	want("a", 5e8, true)
	want("b", 0, false)
	step(20*time.Second, map[string]uint64{"a": 6e9})
	want("a", 0, true)
	step(30*time.Second, nil)
	want("a", 0, false)
}
