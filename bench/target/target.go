// Package target is an apiserver that a benchmark measures: how to reach it, and what its processes cost.
package target

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

// ProfileTime is the duration of a CPU profile.
const ProfileTime = 10 * time.Second

// Target is the measured apiserver.
type Target struct {
	// Own is the apiserver that the benchmark started; nil if it already existed.
	Own       *plane.Server
	config    *rest.Config
	processes []measure.Process
}

// Cost is the CPU time that each process used for some work, and the duration of the work.
type Cost struct {
	CPU  []time.Duration
	Took time.Duration
}

// Start starts an apiserver.
func Start(ctx context.Context, own *plane.Server) (*Target, error) {
	t := &Target{Own: own}
	if err := t.Restart(ctx); err != nil {
		own.Stop()
		return nil, err
	}
	return t, nil
}

// Open connects to the apiserver that the flags name.
func Open(kubeconfig, pids string) (*Target, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", kubeconfig, err)
	}
	t := &Target{config: config}
	for pair := range strings.SplitSeq(pids, ",") {
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

// Restart starts or restarts the benchmark's own apiserver.
func (t *Target) Restart(ctx context.Context) error {
	config, err := t.Own.Restart(ctx)
	if err != nil {
		return err
	}
	t.config, t.processes = config, t.Own.Processes()
	return nil
}

func (t *Target) Close() {
	if t.Own != nil {
		t.Own.Stop()
	}
}

// Config returns how clients reach the apiserver.
func (t *Target) Config() *rest.Config { return rest.CopyConfig(t.config) }

func (t *Target) Names() []string {
	var names []string
	for _, p := range t.processes {
		names = append(names, p.Name)
	}
	return names
}

// Client creates a client for core/v1 with its own connection.
func (t *Target) Client(contentType string) (*rest.RESTClient, error) {
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

// Connect creates clients with established connections.
func (t *Target) Connect(ctx context.Context, n int, contentType string) ([]*rest.RESTClient, error) {
	all := make([]*rest.RESTClient, n)
	for i := range all {
		client, err := t.Client(contentType)
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

// Measure returns the cost of work.
func (t *Target) Measure(work func() error) (Cost, error) {
	before, err := t.CPU()
	if err != nil {
		return Cost{}, err
	}
	began := time.Now()
	if err := work(); err != nil {
		return Cost{}, err
	}
	c := Cost{Took: time.Since(began)}
	after, err := t.CPU()
	if err != nil {
		return Cost{}, err
	}
	for i := range after {
		c.CPU = append(c.CPU, after[i]-before[i])
	}
	return c, nil
}

// CPU returns the CPU time that each process has used, in user and kernel mode.
func (t *Target) CPU() ([]time.Duration, error) { return each(t.processes, measure.Process.CPU) }

// Memory returns the resident memory of each process, in bytes.
func (t *Target) Memory() ([]int64, error) { return each(t.processes, measure.Process.Resident) }

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

// Heap writes a heap profile of the apiserver after a collection.
func (t *Target) Heap(ctx context.Context, path string) error {
	return t.debug(ctx, path, "/debug/pprof/heap", url.Values{"gc": {"1"}})
}

// Profile writes a CPU profile of the apiserver.
func (t *Target) Profile(ctx context.Context, path string, length time.Duration) error {
	return t.debug(ctx, path, "/debug/pprof/profile", url.Values{"seconds": {strconv.Itoa(int(length.Seconds()))}})
}

func (t *Target) debug(ctx context.Context, path, from string, query url.Values) error {
	client, err := t.Client("application/json")
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
