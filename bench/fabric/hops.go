package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/bench/measure"
	"github.com/garboard/garboard/bench/sample"
	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/follow"
	"github.com/garboard/garboard/libs/trace"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
	"github.com/garboard/garboard/test/chaos/plane"
)

const (
	// writePause is between two writes: nothing waits for the write before.
	writePause = 5 * time.Millisecond
	// bareBelow is where what goes a bare path is in etcd, each in its own folder.
	bareBelow = "/bare/"
	// writtenPods is how many pods are written, in turn.
	writtenPods = 100
)

// moments is when what happened to each revision.
type moments struct {
	mu sync.Mutex
	at map[int64]time.Time
	// latest is the largest revision yet.
	latest int64
}

func newMoments() *moments { return &moments{at: map[int64]time.Time{}} }

func (m *moments) note(revision int64) {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, again := m.at[revision]; !again {
		m.at[revision] = now
	}
	m.latest = max(m.latest, revision)
}

// wait waits until a revision, or a later one, was noted.
func (m *moments) wait(ctx context.Context, revision int64) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		m.mu.Lock()
		latest := m.latest
		m.mu.Unlock()
		if latest >= revision {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for revision %d: %w", revision, ctx.Err())
		}
	}
}

// between is how long it took from one moment to the other, of each revision that has both.
func between(from, to map[int64]time.Time) []time.Duration {
	var all []time.Duration
	for revision, then := range to {
		if began, ok := from[revision]; ok {
			all = append(all, then.Sub(began))
		}
	}
	return all
}

// hops measures how long a change takes from etcd's acknowledgement to a handler, and where,
// beside the shortest way there is from etcd to a subscriber.
func (b *bench) hops(ctx context.Context) error {
	w, err := b.newWorld(ctx, 1)
	if err != nil {
		return err
	}
	defer w.Close()
	bare, err := w.newBarePath(ctx, "bare", "")
	if err != nil {
		return err
	}
	defer bare.close()
	kept, err := w.newBarePath(ctx, "kept", "KEPT")
	if err != nil {
		return err
	}
	defer kept.close()
	full, err := w.newFullPath(ctx)
	if err != nil {
		return err
	}
	defer full.close()
	if err := full.makePods(ctx); err != nil {
		return err
	}
	columns := map[string][]time.Duration{}
	var apiserver []time.Duration
	if b.profiles != "" {
		if err := full.profile(ctx); err != nil {
			return err
		}
	}
	for range b.repeats {
		for _, path := range []*barePath{bare, kept} {
			if err := path.measure(ctx, columns); err != nil {
				return err
			}
		}
		used, err := full.measure(ctx, columns)
		if err != nil {
			return err
		}
		apiserver = append(apiserver, used)
		if err := full.measureHops(ctx, columns); err != nil {
			return err
		}
		if err := full.measureAPI(ctx, columns); err != nil {
			return err
		}
	}
	n := strconv.Itoa(b.repeats * b.writes)
	b.report.Table("Hops of a change ("+n+" writes, one every "+writePause.String()+")", "from", "to", "median, µs", "90 %, µs")
	row := func(from, to, name string) {
		b.report.Row(from, to, micro(measure.Median(columns[name])), micro(measure.Share(columns[name], 0.9)))
	}
	row("bare path: etcd acknowledged", "subscriber called (etcd watch, one NATS publish)", "bare")
	row("– etcd acknowledged", "relay publishes (etcd watch)", "bare taken")
	row("– publishes", "subscriber called (NATS)", "bare carried")
	row("the same with a log", "subscriber called (JetStream keeps what is published)", "kept")
	row("– publishes", "subscriber called (NATS)", "kept carried")
	row("etcd acknowledged", "**handler called**", "handled")
	row("with a second subscriber: etcd acknowledged", "handler called", "all")
	row("– etcd acknowledged", "apiserver begins to publish (etcd watch, feed)", "taken")
	row("– begins to publish", "published (encoding, NATS client)", "published")
	row("– published", "message at another subscriber (NATS)", "carried")
	row("– message there", "handler called (decoding, rules, store, queue)", "applied")
	row("PATCH sent to the API", "answered", "request")
	row("PATCH answered", "handler called", "answered")
	b.report.Printf("\nThe handler is called in %.2f times the time of the bare path. CPU of the apiserver for each direct write: %s µs.\n",
		float64(measure.Median(columns["handled"]))/float64(measure.Median(columns["bare"])), micro(measure.Median(apiserver)/time.Duration(b.writes)))
	return nil
}

// barePath is a relay with a NATS server of its own.
type barePath struct {
	world       *world
	name        string
	nats, relay *plane.Process
	conn        *bus.Conn
	arrived     *moments

	mu        sync.Mutex
	published map[int64]time.Time
}

// newBarePath starts one, with a stream that keeps what is published if stream names one.
func (w *world) newBarePath(ctx context.Context, name, stream string) (path *barePath, err error) {
	p := &barePath{world: w, name: name, arrived: newMoments(), published: map[int64]time.Time{}}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	address, err := freeAddress(ctx)
	if err != nil {
		return p, err
	}
	host, port, _ := strings.Cut(address, ":")
	p.nats = plane.NewProcess(name+"-nats", w.dir, []string{
		w.bench.binaries.NATS, "--addr", host, "--port", port, "--jetstream", "--store_dir", filepath.Join(w.dir, name+"-nats"),
	}, nil)
	if err := p.nats.Start(); err != nil {
		return p, err
	}
	url := "nats://" + address
	// It tries until the server is there.
	if p.conn, err = bus.Connect(ctx, bus.Config{URLs: []string{url}, Name: name}); err != nil {
		return p, err
	}
	if _, err := p.conn.Subscribe(ctx, name+".*.*", func(m bus.Message) {
		var revision, published int64
		if _, err := fmt.Sscanf(strings.TrimPrefix(m.Subject, name+"."), "%d.%d", &revision, &published); err == nil {
			p.arrived.note(revision)
			p.mu.Lock()
			defer p.mu.Unlock()
			p.published[revision] = time.Unix(0, published)
		}
	}); err != nil {
		return p, err
	}
	ready := make(chan struct{})
	p.relay = plane.NewProcess(name+"-relay", w.dir, []string{
		w.bench.relay, "-etcd", w.Etcd.URL(), "-nats", url, "-prefix", bareBelow + name + "/", "-subject", name, "-stream", stream,
	}, func(from io.Reader) {
		_, _ = bufio.NewReader(from).ReadString('\n')
		close(ready)
		_, _ = io.Copy(io.Discard, from)
	})
	if err := p.relay.Start(); err != nil {
		return p, err
	}
	select {
	case <-ready:
	case <-ctx.Done():
		return p, ctx.Err()
	}
	return p, errors.Join(p.conn.Flush(ctx), p.relay.Died())
}

func freeAddress(ctx context.Context) (string, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("looking for a free port: %w", err)
	}
	return listener.Addr().String(), listener.Close()
}

func (p *barePath) close() {
	if p.relay != nil {
		p.relay.Kill()
	}
	if p.conn != nil {
		p.conn.Close()
	}
	if p.nats != nil {
		p.nats.Kill()
	}
}

// measure writes, and adds the times from each acknowledgement to the subscriber.
func (p *barePath) measure(ctx context.Context, to map[string][]time.Duration) error {
	acknowledged, last, err := p.world.writeEach(ctx, bareBelow+p.name+"/")
	if err != nil {
		return err
	}
	if err := p.arrived.wait(ctx, last); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	to[p.name] = append(to[p.name], between(acknowledged, p.arrived.at)...)
	to[p.name+" taken"] = append(to[p.name+" taken"], between(acknowledged, p.published)...)
	to[p.name+" carried"] = append(to[p.name+" carried"], between(only(p.published, acknowledged), p.arrived.at)...)
	return nil
}

// writeEach writes pods one after the other, and gives when each was
// acknowledged.
func (w *world) writeEach(ctx context.Context, below string) (acknowledged map[int64]time.Time, last int64, err error) {
	acknowledged = map[int64]time.Time{}
	tick := time.NewTicker(writePause)
	defer tick.Stop()
	for i := range w.bench.writes {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
		name := podName(i % writtenPods)
		revision, err := w.put(ctx, below, name, i%writtenPods, w.uid(name))
		if err != nil {
			return nil, 0, err
		}
		acknowledged[revision], last = time.Now(), revision
	}
	return acknowledged, last, nil
}

// fullPath is an informer in this process, and a subscriber beside it.
type fullPath struct {
	world            *world
	api              kubernetes.Interface
	conns            []*bus.Conn
	arrived, handled *moments
	stop             func() error
}

func (w *world) newFullPath(ctx context.Context) (path *fullPath, err error) {
	p := &fullPath{world: w, arrived: newMoments(), handled: newMoments(), stop: func() error { return nil }}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	config := rest.CopyConfig(w.Apiservers[0].API)
	config.QPS = -1
	if p.api, err = kubernetes.NewForConfig(config); err != nil {
		return p, err
	}
	for range 2 {
		conn, err := bus.Connect(ctx, bus.Config{URLs: w.URLs(), Name: "hops", Token: plane.Token})
		if err != nil {
			return p, err
		}
		p.conns = append(p.conns, conn)
	}
	lister, err := w.client()
	if err != nil {
		return p, err
	}
	logger := slog.New(slog.DiscardHandler)
	pods := informer.NewSharedInformer[*corev1.Pod](informer.Config{
		Source: follow.New(follow.Config{Conn: p.conns[1], Table: w.bench.table, Client: lister, Logger: logger}), Table: w.bench.table, Logger: logger,
	}, informer.View{})
	note := func(pod *corev1.Pod) {
		if revision, err := strconv.ParseInt(pod.ResourceVersion, 10, 64); err == nil {
			p.handled.note(revision)
		}
	}
	if _, err := pods.AddEventHandler(informer.ResourceEventHandlerFuncs[*corev1.Pod]{AddFunc: func(pod *corev1.Pod, _ bool) { note(pod) }, UpdateFunc: func(_, pod *corev1.Pod) { note(pod) }}); err != nil {
		return p, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var group errgroup.Group
	group.Go(func() error { return pods.Run(ctx) })
	p.stop = func() error { cancel(); return group.Wait() }
	// A pod that comes says that the informer has begun.
	revision, err := w.put(ctx, below, podName(0), 0, w.uid(podName(0)))
	if err != nil {
		return p, err
	}
	return p, p.handled.wait(ctx, revision)
}

func (p *fullPath) close() {
	_ = p.stop()
	for _, conn := range p.conns {
		conn.Close()
	}
}

// measure writes to etcd itself, and adds the times until the handler is called. It gives what
// the apiserver has spent.
func (p *fullPath) measure(ctx context.Context, to map[string][]time.Duration) (time.Duration, error) {
	var acknowledged map[int64]time.Time
	used, err := spent(p.world.servers()[:1], func() error {
		var last int64
		var err error
		if acknowledged, last, err = p.world.writeEach(ctx, below); err != nil {
			return err
		}
		return p.handled.wait(ctx, last)
	})
	if err != nil {
		return 0, err
	}
	to["handled"] = append(to["handled"], between(acknowledged, p.handled.at)...)
	return used[0], nil
}

// measureHops writes to etcd itself, and adds the times of each hop. For this there is a second
// subscriber, which costs some time too.
func (p *fullPath) measureHops(ctx context.Context, to map[string][]time.Duration) error {
	sub, err := p.conns[0].Subscribe(ctx, bus.ResourceSubject("", "pods"), func(m bus.Message) {
		var message watchv1.Message
		if err := proto.Unmarshal(m.Data, &message); err == nil && message.GetType() == watchv1.Type_TYPE_PUT {
			p.arrived.note(message.GetRevision())
		}
	})
	if err != nil {
		return err
	}
	defer sub.Unsubscribe()
	if err := p.conns[0].Flush(ctx); err != nil {
		return err
	}
	acknowledged, last, err := p.world.writeEach(ctx, below)
	if err != nil {
		return err
	}
	if err := errors.Join(p.handled.wait(ctx, last), p.arrived.wait(ctx, last)); err != nil {
		return err
	}
	began, published, err := p.published(ctx)
	if err != nil {
		return err
	}
	for name, pair := range map[string][2]map[int64]time.Time{
		"all": {acknowledged, p.handled.at}, "taken": {acknowledged, began}, "published": {began, published},
		"carried": {published, p.arrived.at}, "applied": {p.arrived.at, p.handled.at},
	} {
		// Only what was written now: p knows of earlier ones too.
		to[name] = append(to[name], between(only(pair[0], acknowledged), pair[1])...)
	}
	return nil
}

// profile takes a CPU profile of the apiserver while objects are written to etcd itself.
func (p *fullPath) profile(ctx context.Context) error {
	lasts := time.Duration(p.world.bench.writes) * writePause
	taken := make(chan error, 1)
	go func() {
		data, err := p.api.Discovery().RESTClient().Get().AbsPath("/debug/pprof/profile").
			Param("seconds", strconv.Itoa(max(int(lasts.Seconds()), 1))).DoRaw(ctx)
		if err == nil {
			err = os.MkdirAll(p.world.bench.profiles, 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(p.world.bench.profiles, "hops.pprof"), data, 0o600)
		}
		taken <- err
	}()
	_, last, err := p.world.writeEach(ctx, below)
	if err == nil {
		err = p.handled.wait(ctx, last)
	}
	return errors.Join(err, <-taken)
}

func only(all, some map[int64]time.Time) map[int64]time.Time {
	picked := map[int64]time.Time{}
	for revision := range some {
		if at, ok := all[revision]; ok {
			picked[revision] = at
		}
	}
	return picked
}

// published asks the apiserver when it began and ended to publish each revision that it
// remembers.
func (p *fullPath) published(ctx context.Context) (began, ended map[int64]time.Time, err error) {
	data, err := p.api.Discovery().RESTClient().Get().AbsPath("/debug/garboard/trace").Param("resource", "pods").Param("step", trace.Publish).DoRaw(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("asking for the trace: %w", err)
	}
	var all []trace.Hop
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, nil, fmt.Errorf("reading the trace: %w", err)
	}
	began, ended = map[int64]time.Time{}, map[int64]time.Time{}
	for _, hop := range all {
		began[hop.Revision], ended[hop.Revision] = hop.Time.Add(-hop.Took), hop.Time
	}
	return began, ended, nil
}

// patched is one of the pods that are written through the API. What is written to etcd itself
// lacks the defaults that the API adds.
func patched(n int) string { return fmt.Sprintf("patched-%d", n%writtenPods) }

// makePods makes the pods that are written through the API.
func (p *fullPath) makePods(ctx context.Context) error {
	for i := range writtenPods {
		if _, err := p.api.CoreV1().Pods(namespace).Create(ctx, sample.Pod(namespace, patched(i), i), metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("making a pod: %w", err)
		}
	}
	return nil
}

// measureAPI writes through the API, and adds the times until it answers and from there.
func (p *fullPath) measureAPI(ctx context.Context, to map[string][]time.Duration) error {
	pods := p.api.CoreV1().Pods(namespace)
	began, answered := map[int64]time.Time{}, map[int64]time.Time{}
	tick := time.NewTicker(writePause)
	defer tick.Stop()
	var last int64
	for i := range p.world.bench.writes {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		begun := time.Now()
		patch := fmt.Sprintf(`{"metadata":{"annotations":{"n":"%d"}}}`, begun.UnixNano())
		pod, err := pods.Patch(ctx, patched(i), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		if err != nil {
			return fmt.Errorf("writing through the API: %w", err)
		}
		if last, err = strconv.ParseInt(pod.ResourceVersion, 10, 64); err != nil {
			return fmt.Errorf("writing through the API: %w", err)
		}
		began[last], answered[last] = begun, time.Now()
	}
	if err := p.handled.wait(ctx, last); err != nil {
		return err
	}
	to["request"] = append(to["request"], between(began, answered)...)
	to["answered"] = append(to["answered"], between(answered, p.handled.at)...)
	return nil
}
