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

	"github.com/garboard/garboard/bench/measure"
	"github.com/garboard/garboard/bench/plane"
)

// profileTime is the duration of a CPU profile.
const profileTime = 10 * time.Second

// target is the measured apiserver.
type target struct {
	config    *rest.Config
	processes []measure.Process
	own       *plane.Server // nil if the apiserver already existed
}

// start starts an apiserver.
func start(ctx context.Context, own *plane.Server) (*target, error) {
	t := &target{own: own}
	if err := t.restart(ctx); err != nil {
		own.Stop()
		return nil, err
	}
	return t, nil
}

// open connects to the apiserver that the flags name.
func open(s settings) (*target, error) {
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
		t.processes = append(t.processes, measure.Process{Name: name, PID: pid})
	}
	return t, nil
}

// restart starts or restarts the benchmark's own apiserver.
func (t *target) restart(ctx context.Context) error {
	config, err := t.own.Restart(ctx)
	if err != nil {
		return err
	}
	t.config, t.processes = config, t.own.Processes()
	return nil
}

func (t *target) close() {
	if t.own != nil {
		t.own.Stop()
	}
}

func (t *target) names() []string {
	var names []string
	for _, p := range t.processes {
		names = append(names, p.Name)
	}
	return names
}

// client creates a client for core/v1 with its own connection.
func (t *target) client(contentType string) (*rest.RESTClient, error) {
	config := rest.CopyConfig(t.config)
	config.QPS = -1
	config.GroupVersion, config.APIPath = &corev1.SchemeGroupVersion, "/api"
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	config.ContentType, config.AcceptContentTypes = contentType, contentType
	// Clients with equal configurations share a transport; a distinct dialer prevents that.
	config.Dial = (&net.Dialer{Timeout: time.Minute}).DialContext
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	return client, nil
}

// connect creates clients with established connections.
func (t *target) connect(ctx context.Context, n int, contentType string) ([]*rest.RESTClient, error) {
	all := make([]*rest.RESTClient, n)
	for i := range all {
		client, err := t.client(contentType)
		if err != nil {
			return nil, err
		}
		if err := client.Get().AbsPath("/version").Do(ctx).Error(); err != nil {
			return nil, fmt.Errorf("connecting a client: %w", err)
		}
		all[i] = client
	}
	return all, nil
}

// measure returns the cost of work.
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

// cpu returns the CPU time that each process has used, in user and kernel mode.
func (t *target) cpu() ([]time.Duration, error) { return each(t.processes, measure.Process.CPU) }

// memory returns the resident memory of each process, in bytes.
func (t *target) memory() ([]int64, error) { return each(t.processes, measure.Process.Resident) }

func each[T any](processes []measure.Process, of func(measure.Process) (T, error)) ([]T, error) {
	var all []T
	for _, p := range processes {
		one, err := of(p)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// heap writes a heap profile of the apiserver after a collection.
func (t *target) heap(ctx context.Context, path string) error {
	return t.debug(ctx, path, "/debug/pprof/heap", url.Values{"gc": {"1"}})
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
