//go:build containers

package streams

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/garboard/garboard/bench/measure"
)

// size is how many bytes are carried at a time.
const size = 1 << 30

// BenchmarkStreams measures each kind of session on all ways, one after the other.
func BenchmarkStreams(b *testing.B) {
	w := start(b)
	b.Run("exec", func(b *testing.B) { w.each(b, execs) })
	b.Run("download", func(b *testing.B) { w.each(b, w.downloads) })
	b.Run("upload", func(b *testing.B) { w.each(b, w.uploads) })
	b.Run("forward-download", func(b *testing.B) { w.each(b, w.forwardsOut) })
	b.Run("forward-upload", func(b *testing.B) { w.each(b, w.forwardsIn) })
	b.Run("100-sessions", func(b *testing.B) { w.each(b, together) })
	b.Run("1000-logs", w.logs)
}

func (w *world) each(b *testing.B, bench func(b *testing.B, from side)) {
	for _, from := range w.sides {
		b.Run(from.name, func(b *testing.B) { bench(b, from) })
	}
}

// execs measures the time to the first byte of a command.
func execs(b *testing.B, from side) {
	var all []time.Duration
	for b.Loop() {
		for range 50 {
			began := time.Now()
			executor := from.executor(b, []string{"/pump", "first"}, false)
			prepared := time.Since(began)
			first, err := run(b.Context(), executor, nil)
			must(b, err)
			all = append(all, prepared+first)
		}
	}
	slices.Sort(all)
	b.ReportMetric(milliseconds(measure.Share(all, 0.5)), "p50-ms")
	b.ReportMetric(milliseconds(measure.Share(all, 0.99)), "p99-ms")
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// grows reports by how much the memory of each of the plane's processes grows at most during f.
func (w *world) grows(b *testing.B, f func()) {
	b.Helper()
	before := make([]int64, len(w.processes))
	for i, process := range w.processes {
		var err error
		before[i], err = process.Resident()
		must(b, err)
		must(b, process.ResetPeak())
	}
	f()
	for i, process := range w.processes {
		peak, err := process.Peak()
		must(b, err)
		b.ReportMetric(float64(max(peak-before[i], 0))/(1<<20), process.Name+"-grown-MiB")
	}
}

func (w *world) downloads(b *testing.B, from side) {
	b.SetBytes(size)
	w.grows(b, func() {
		for b.Loop() {
			_, err := run(b.Context(), from.executor(b, []string{"/pump", "out", fmt.Sprint(size)}, false), nil)
			must(b, err)
		}
	})
}

func (w *world) uploads(b *testing.B, from side) {
	b.SetBytes(size)
	w.grows(b, func() {
		for b.Loop() {
			_, err := run(b.Context(), from.executor(b, []string{"/pump", "in"}, true), io.LimitReader(zeros{}, size))
			must(b, err)
		}
	})
}

func (w *world) forwardsOut(b *testing.B, from side) {
	ports, stop := forwarded(b, from, "0:9000")
	defer stop()
	b.SetBytes(size)
	w.grows(b, func() {
		for b.Loop() {
			conn := dial(b, ports[0])
			n, err := io.Copy(io.Discard, conn)
			must(b, err)
			if n != size {
				b.Fatalf("got %d bytes", n)
			}
			must(b, conn.Close())
		}
	})
}

func (w *world) forwardsIn(b *testing.B, from side) {
	ports, stop := forwarded(b, from, "0:9001")
	defer stop()
	b.SetBytes(size)
	w.grows(b, func() {
		for b.Loop() {
			conn := dial(b, ports[0])
			_, err := io.CopyN(conn, zeros{}, size)
			must(b, err)
			// What the pod swallowed is known when it answers.
			_, err = io.ReadFull(conn, make([]byte, 1))
			must(b, err)
			must(b, conn.Close())
		}
	})
}

func dial(b *testing.B, port uint16) net.Conn {
	b.Helper()
	conn, err := new(net.Dialer).DialContext(b.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	must(b, err)
	return conn
}

// together measures how long it takes until 100 sessions that begin at once have answered.
func together(b *testing.B, from side) {
	const sessions = 100
	for b.Loop() {
		var group sync.WaitGroup
		for range sessions {
			executor := from.executor(b, []string{"/pump", "echo"}, true)
			group.Go(func() {
				in, typed := io.Pipe()
				defer func() { _ = in.Close() }()
				go func() {
					_, _ = io.WriteString(typed, "hello")
					_ = typed.Close()
				}()
				if first, err := run(b.Context(), executor, in); err != nil || first == 0 {
					b.Errorf("a session of %d: %v", sessions, err)
				}
			})
		}
		group.Wait()
	}
}

// logs measures the plane's CPU for each line of 1,000 followed logs: ten containers with 10 lines a second each, and
// 100 clients of each.
func (w *world) logs(b *testing.B) {
	const containers, followers, perSecond = 10, 100, 10
	for i := range containers {
		w.plane.Must(b, "", "run", fmt.Sprintf("talker-%d", i), "--image="+image, "--", "lines", fmt.Sprint(perSecond))
	}
	w.plane.Must(b, "", "wait", "--for=condition=Ready", "pod", "-l", "run", "--timeout=150s")
	config, err := clientcmd.BuildConfigFromFlags("", w.plane.Kubeconfig())
	must(b, err)
	client, err := rest.HTTPClientFor(config)
	must(b, err)
	ctx, cancel := context.WithCancel(b.Context())
	var lines atomic.Int64
	var group sync.WaitGroup
	for i := range containers * followers {
		at := fmt.Sprintf("%s/api/v1/namespaces/default/pods/talker-%d/log?follow=true&tailLines=0", config.Host, i%containers)
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
		must(b, err)
		response, err := client.Do(request)
		must(b, err)
		body := response.Body
		group.Go(func() {
			defer func() { _ = body.Close() }()
			for scanner := bufio.NewScanner(body); scanner.Scan(); {
				lines.Add(1)
			}
		})
	}
	for b.Loop() {
		before, used := lines.Load(), w.cpu(b)
		began := time.Now()
		<-time.After(20 * time.Second)
		took, count := time.Since(began), lines.Load()-before
		b.ReportMetric(float64(count)/took.Seconds(), "lines/s")
		b.ReportMetric(float64((w.cpu(b)-used).Microseconds())/float64(max(count, 1)), "cpu-us/line")
	}
	cancel()
	group.Wait()
	w.plane.Must(b, "", "delete", "pod", "-l", "run", "--grace-period=1")
}

func (w *world) cpu(b *testing.B) (sum time.Duration) {
	b.Helper()
	for _, process := range w.processes {
		used, err := process.CPU()
		must(b, err)
		sum += used
	}
	return sum
}

// zeros reads zeros without an end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
