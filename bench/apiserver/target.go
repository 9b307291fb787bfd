package main

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// profileTime is how long a CPU profile lasts.
const profileTime = 10 * time.Second

// process is one whose costs are counted.
type process struct {
	name string
	pid  int
}

// target is the apiserver that is measured.
type target struct {
	config    *rest.Config
	processes []process
	own       *plane // nil for an apiserver that was there before
}

// open finds the apiserver, or starts one.
func open(ctx context.Context, s settings, dir string) (*target, error) {
	if s.kubeconfig == "" {
		own, err := newPlane(ctx, s.binary, dir)
		if err != nil {
			return nil, err
		}
		t := &target{own: own}
		if err := t.restart(ctx); err != nil {
			own.close()
			return nil, err
		}
		return t, nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", s.kubeconfig, err)
	}
	t := &target{config: config}
	for pair := range strings.SplitSeq(s.pids, ",") {
		if pair == "" {
			continue
		}
		name, number, ok := strings.Cut(pair, "=")
		pid, err := strconv.Atoi(number)
		if !ok || err != nil {
			return nil, fmt.Errorf("%q is not NAME=PID", pair)
		}
		t.processes = append(t.processes, process{name, pid})
	}
	return t, nil
}

// restart starts the own apiserver, again if it runs.
func (t *target) restart(ctx context.Context) error {
	config, err := t.own.restart(ctx)
	if err != nil {
		return err
	}
	t.config, t.processes = config, t.own.processes()
	return nil
}

func (t *target) close() {
	if t.own != nil {
		t.own.close()
	}
}

func (t *target) names() []string {
	var names []string
	for _, p := range t.processes {
		names = append(names, p.name)
	}
	return names
}

// client makes a client for core/v1 with a connection of its own.
func (t *target) client(contentType string) (*rest.RESTClient, error) {
	config := rest.CopyConfig(t.config)
	config.QPS = -1
	config.GroupVersion, config.APIPath = &corev1.SchemeGroupVersion, "/api"
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	config.ContentType, config.AcceptContentTypes = contentType, contentType
	// Transports are shared by those with the same configuration, a dialer included.
	config.Dial = (&net.Dialer{Timeout: time.Minute}).DialContext
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return client, nil
}

// measure counts what work costs.
func (t *target) measure(work func() error) (cost, error) {
	before, err := t.cpu()
	if err != nil {
		return cost{}, err
	}
	began := time.Now()
	if err := work(); err != nil {
		return cost{}, err
	}
	c := cost{took: time.Since(began)}
	after, err := t.cpu()
	if err != nil {
		return cost{}, err
	}
	for i := range after {
		c.cpu = append(c.cpu, after[i]-before[i])
	}
	return c, nil
}

// clockTick is the unit of the CPU times in /proc; Linux has it so for all programs.
const clockTick = 10 * time.Millisecond

// cpu is the CPU time that each process has used, in user and kernel mode.
func (t *target) cpu() ([]time.Duration, error) {
	used := make([]time.Duration, len(t.processes))
	for i, p := range t.processes {
		data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.pid), "stat"))
		if err != nil {
			return nil, fmt.Errorf("reading the CPU time of the %s: %w", p.name, err)
		}
		// The second field, a name in parentheses, may hold anything.
		_, rest, ok := strings.Cut(string(data[strings.LastIndexByte(string(data), ')'):]), " ")
		fields := strings.Fields(rest)
		if !ok || len(fields) < 13 {
			return nil, fmt.Errorf("reading the CPU time of the %s: %q is no stat file", p.name, data)
		}
		for _, field := range fields[11:13] { // utime and stime
			ticks, err := strconv.ParseInt(field, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("reading the CPU time of the %s: %w", p.name, err)
			}
			used[i] += time.Duration(ticks) * clockTick
		}
	}
	return used, nil
}

// memory is the resident memory of each process, in bytes.
func (t *target) memory() ([]int64, error) {
	resident := make([]int64, len(t.processes))
	for i, p := range t.processes {
		data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.pid), "status"))
		if err != nil {
			return nil, fmt.Errorf("reading the memory of the %s: %w", p.name, err)
		}
		_, after, ok := strings.Cut(string(data), "VmRSS:")
		fields := strings.Fields(after)
		if !ok || len(fields) == 0 {
			return nil, fmt.Errorf("reading the memory of the %s: its status has no VmRSS", p.name)
		}
		kilobytes, err := strconv.ParseInt(fields[0], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("reading the memory of the %s: %w", p.name, err)
		}
		resident[i] = kilobytes << 10
	}
	return resident, nil
}

// profile writes a CPU profile of the apiserver.
func (t *target) profile(ctx context.Context, path string, length time.Duration) error {
	return t.debug(ctx, path, "/debug/pprof/profile", url.Values{"seconds": {strconv.Itoa(int(length.Seconds()))}})
}

func (t *target) debug(ctx context.Context, path, from string, query url.Values) error {
	client, err := t.client("application/json")
	if err != nil {
		return err
	}
	request := client.Get().AbsPath(from)
	for name, values := range query {
		request = request.Param(name, values[0])
	}
	data, err := request.Do(ctx).Raw()
	if err != nil {
		return fmt.Errorf("reading %s: %w", from, err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}
