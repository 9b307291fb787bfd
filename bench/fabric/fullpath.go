package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/bench/sample"
	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/subject"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/fabricsource"
	"github.com/garboard/garboard/libs/trace"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
	"github.com/garboard/garboard/test/chaos/plane"
)

// fullPath is an informer in this process, and a subscriber next to it.
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
		Source: fabricsource.New(fabricsource.Config{Conn: p.conns[1], Table: w.bench.table, Client: lister, Logger: logger}),
		Table:  w.bench.table, Logger: logger,
	}, informer.View{})
	note := func(pod *corev1.Pod) {
		if revision, err := strconv.ParseInt(pod.ResourceVersion, 10, 64); err == nil {
			p.handled.note(revision)
		}
	}
	if _, err := pods.AddEventHandler(informer.ResourceEventHandlerFuncs[*corev1.Pod]{
		AddFunc:    func(pod *corev1.Pod, _ bool) { note(pod) },
		UpdateFunc: func(_, pod *corev1.Pod) { note(pod) },
	}); err != nil {
		return p, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var group errgroup.Group
	group.Go(func() error { return pods.Run(ctx) })
	p.stop = func() error { cancel(); return group.Wait() }
	// The arrival of a pod shows that the informer has started.
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

// measure writes directly to etcd, and adds the times until the handler is called. It returns the
// CPU time that the apiserver has used.
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

// measureHops writes directly to etcd, and adds the times of each hop. It needs a second
// subscriber, which takes some time, too.
func (p *fullPath) measureHops(ctx context.Context, to map[string][]time.Duration) error {
	sub, err := p.conns[0].Subscribe(ctx, subject.Resource("", "pods"), func(m bus.Message) {
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
		// Only the current writes: p also knows earlier ones.
		to[name] = append(to[name], between(only(pair[0], acknowledged), pair[1])...)
	}
	return nil
}

// profile takes a CPU profile of the apiserver while objects are written directly to etcd.
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

// published asks the apiserver when it started and finished publishing each revision that it
// remembers.
func (p *fullPath) published(ctx context.Context) (began, ended map[int64]time.Time, err error) {
	data, err := p.api.Discovery().RESTClient().Get().AbsPath("/debug/garboard/trace").Param("resource", "pods").Param("step", trace.Publish).DoRaw(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("requesting the trace: %w", err)
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

// patched returns the name of a pod that is written through the API. Pods written directly to etcd
// lack the defaults that the API sets.
func patched(n int) string { return fmt.Sprintf("patched-%d", n%writtenPods) }

// makePods creates the pods that are written through the API.
func (p *fullPath) makePods(ctx context.Context) error {
	for i := range writtenPods {
		if _, err := p.api.CoreV1().Pods(namespace).Create(ctx, sample.Pod(namespace, patched(i), i), metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating a pod: %w", err)
		}
	}
	return nil
}

// measureAPI writes through the API, and adds the times until the response, and from there to the
// handler.
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
