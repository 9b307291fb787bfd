package upstreamdns

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	ours "github.com/garboard/garboard/services/nodeagent/internal/dns"
)

func TestMain(m *testing.M) {
	// CoreDNS leaves some goroutines behind: it is made for processes that end with it.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("k8s.io/client-go/tools/cache.(*controller).RunWithContext"),
		goleak.IgnoreAnyFunction("github.com/coredns/coredns/plugin/pkg/proxy.(*Transport).connManager"),
		goleak.IgnoreAnyFunction("github.com/coredns/coredns/plugin/kubernetes/object.(*Informer).Run"),
		goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}

// serving is the environment variable that makes this program a server, whose name it is.
const serving = "GARBOARD_BENCH_DNS"

// TestServe is a server in a process of its own, until the standard input ends.
func TestServe(t *testing.T) {
	name := os.Getenv(serving)
	if name == "" {
		t.Skip("this is a part of the benchmark")
	}
	list, upstream := objects(), os.Getenv(serving+"_UPSTREAM")
	addr := ""
	if name == "coredns" {
		addr = startCoreDNS(t, fmt.Sprintf(`
			errors
			kubernetes cluster.local in-addr.arpa ip6.arpa {
				endpoint %s
				pods insecure
				fallthrough in-addr.arpa ip6.arpa
				ttl 30
			}
			prometheus 127.0.0.1:0
			forward . %s
			cache 30
			loadbalance`, serveAPI(t, list), upstream))
	} else {
		addr = startOurs(t, list, upstream, func(cfg *ours.Config) {
			cfg.Registerer = prometheus.NewRegistry()
			cfg.PodNamespace = func(netip.Addr) (string, bool) { return "a", true }
		})
	}
	fmt.Printf("serving %s\n", addr)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// BenchmarkServers measures what a question costs each server: its processor time, and how long the
// answer takes.
func BenchmarkServers(b *testing.B) {
	upstream := startUpstream(b)
	walk := []string{
		"www.example.com.a.svc.cluster.local.", "www.example.com.svc.cluster.local.", "www.example.com.cluster.local.", "www.example.com.",
	}
	for _, question := range []struct {
		what string
		// names are what a client asks for one after another, until it has its answer.
		names []string
	}{
		{"zone", []string{"web.a.svc.cluster.local."}}, {"missing", []string{"x.a.svc.cluster.local."}}, {"cached", []string{"www.example.com."}},
		{"searched", walk},
	} {
		for _, name := range []string{"coredns", "garboard"} {
			names := question.names
			if name == "garboard" {
				names = names[:1] // It searches itself.
			}
			for _, clients := range []int{1, 16} {
				b.Run(fmt.Sprintf("%s/%s/clients=%d", question.what, name, clients), func(b *testing.B) {
					measure(b, name, upstream, names, clients)
				})
			}
		}
	}
}

func measure(b *testing.B, name, upstream string, names []string, clients int) {
	program, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	command := exec.CommandContext(b.Context(), program, "-test.run", "TestServe$")
	command.Env = append(os.Environ(), serving+"="+name, serving+"_UPSTREAM="+upstream)
	stop, err := command.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	output, err := command.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := command.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() { _ = stop.Close(); _ = command.Wait() }()
	addr := ""
	lines := bufio.NewScanner(output)
	for addr == "" && lines.Scan() {
		addr, _ = strings.CutPrefix(lines.Text(), "serving ")
	}
	var reading sync.WaitGroup
	reading.Go(func() { _, _ = io.Copy(io.Discard, output) })
	defer reading.Wait()
	var messages [][]byte
	for _, asked := range names {
		message, err := new(dns.Msg).SetQuestion(asked, dns.TypeA).Pack()
		if err != nil {
			b.Fatal(err)
		}
		messages = append(messages, message)
	}
	load(b, addr, messages, clients, 2000)
	before := cpuTime(b, command.Process.Pid)
	b.ResetTimer()
	times := load(b, addr, messages, clients, b.N)
	b.StopTimer()
	used := cpuTime(b, command.Process.Pid) - before
	b.ReportMetric(float64(used.Nanoseconds())/float64(len(times))/1e3, "cpu-µs/answer")
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Nanoseconds())/1e3, "p50-µs")
	b.ReportMetric(float64(times[len(times)*99/100].Nanoseconds())/1e3, "p99-µs")
	_ = stop.Close()
}

// load asks questions n times, by clients that each wait for their answers.
func load(b *testing.B, addr string, messages [][]byte, clients, n int) []time.Duration {
	times := make([][]time.Duration, clients)
	var asking sync.WaitGroup
	for i := range clients {
		asking.Go(func() {
			conn, err := net.Dial("udp", addr)
			if err != nil {
				b.Error(err)
				return
			}
			defer func() { _ = conn.Close() }()
			answer := make([]byte, 4096)
			for range max(n/clients, 1) {
				began := time.Now()
				_ = conn.SetReadDeadline(began.Add(5 * time.Second))
				for _, message := range messages {
					if _, err := conn.Write(message); err != nil {
						b.Error(err)
						return
					}
					if _, err := conn.Read(answer); err != nil {
						b.Error(err)
						return
					}
				}
				times[i] = append(times[i], time.Since(began))
			}
		})
	}
	asking.Wait()
	return slices.Concat(times...)
}

// cpuTime returns how long a process has used processors.
func cpuTime(b *testing.B, pid int) time.Duration {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	const user, system, tick = 11, 12, 10 * time.Millisecond
	total := 0
	for _, field := range []int{user, system} {
		n, err := strconv.Atoi(fields[field])
		if err != nil {
			b.Fatal(err)
		}
		total += n
	}
	return time.Duration(total) * tick
}
