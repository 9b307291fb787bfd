package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/garboard/garboard/bench/fabric/messages"
	"github.com/garboard/garboard/bench/measure"
	"github.com/garboard/garboard/bench/sample"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/test/chaos/history"
	"github.com/garboard/garboard/test/chaos/plane"
)

const (
	namespace = "bench"
	// writers is the number of concurrent writers where writing itself is not measured.
	writers = 64
	// podEvery means that one in that many written objects is a pod, where pods are followed while
	// other objects are written.
	podEvery = 10
)

// world is a plane for one part of the measurements.
type world struct {
	*plane.Plane
	bench *bench
	dir   string
	uids  map[string]types.UID
}

// newWorld starts a plane. Close ends all of it.
func (b *bench) newWorld(ctx context.Context, nats int, flags ...string) (w *world, err error) {
	b.planes++
	dir, err := filepath.Abs(filepath.Join(b.dir, fmt.Sprintf("plane-%d", b.planes)))
	if err != nil {
		return nil, err
	}
	// An earlier run may have left one.
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o700)); err != nil {
		return nil, err
	}
	w = &world{bench: b, dir: dir, uids: map[string]types.UID{}}
	w.Plane, err = plane.Start(ctx, plane.Config{Binaries: b.binaries, Dir: dir, NATS: nats, Apiservers: 1, ApiserverFlags: flags})
	defer func() {
		if err != nil {
			w.Close()
		}
	}()
	if err != nil {
		return nil, err
	}
	api, err := w.client()
	if err != nil {
		return nil, err
	}
	_, err = client.Of[*corev1.Namespace](api).Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		metav1.CreateOptions{})
	return w, err
}

func (w *world) client() (*client.HTTP, error) { return client.New(w.Apiservers[0].API, w.bench.table) }

// servers returns the processes whose costs count.
func (w *world) servers() []measure.Process {
	all := []measure.Process{{Name: "apiserver", PID: w.Apiservers[0].PID()}, {Name: "etcd", PID: w.Etcd.PID()}}
	for _, n := range w.NATS {
		all = append(all, measure.Process{Name: "NATS", PID: n.PID()})
	}
	return all
}

// cpu returns the CPU time that the servers have used.
func cpu(of []measure.Process) ([]time.Duration, error) {
	var all []time.Duration
	for _, p := range of {
		used, err := p.CPU()
		if err != nil {
			return nil, err
		}
		all = append(all, used)
	}
	return all, nil
}

// spent returns the CPU time that the servers use during work.
func spent(of []measure.Process, work func() error) ([]time.Duration, error) {
	before, err := cpu(of)
	if err != nil {
		return nil, err
	}
	if err := work(); err != nil {
		return nil, err
	}
	after, err := cpu(of)
	if err != nil {
		return nil, err
	}
	for i := range after {
		after[i] -= before[i]
	}
	return after, nil
}

// encoded returns a pod in etcd's encoding, with the start time of its write.
func (w *world) encoded(name string, n int, uid types.UID) ([]byte, error) {
	pod := sample.Pod(namespace, name, n)
	pod.UID, pod.CreationTimestamp = uid, metav1.Unix(1_800_000_000, 0)
	pod.Annotations[messages.Written] = strconv.FormatInt(time.Now().UnixNano(), 10)
	return w.bench.table.EncodeStorage(scheme.For[*corev1.Pod](w.bench.table), pod)
}

// put writes a pod directly to etcd, so that the time of etcd's acknowledgement is known.
func (w *world) put(ctx context.Context, below, name string, n int, uid types.UID) (revision int64, err error) {
	data, err := w.encoded(name, n, uid)
	if err != nil {
		return 0, err
	}
	done, err := w.Client().Put(ctx, below+name, string(data))
	if err != nil {
		return 0, fmt.Errorf("writing to etcd: %w", err)
	}
	return done.Header.Revision, nil
}

// below is the etcd prefix of the namespace's pods.
const below = history.Root + "pods/" + namespace + "/"

// uid returns the UID of a pod, always the same.
func (w *world) uid(name string) types.UID {
	if w.uids[name] == "" {
		w.uids[name] = uuid.NewUUID()
	}
	return w.uids[name]
}

// fill writes changes to the given number of pods, in turn, as fast as possible.
func (w *world) fill(ctx context.Context, pods, changes int) error {
	for i := range pods {
		w.uid(podName(i))
	}
	var next atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for range writers {
		group.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= changes {
					return nil
				}
				name := podName(i % pods)
				if _, err := w.put(ctx, below, name, i%pods, w.uids[name]); err != nil {
					return err
				}
			}
		})
	}
	return group.Wait()
}

// write changes the given number of pods, in turn and at the configured rate. It returns the
// revision of the last change.
func (w *world) write(ctx context.Context, pods, changes int) (last int64, err error) {
	tick := time.NewTicker(time.Second / time.Duration(w.bench.rate))
	defer tick.Stop()
	for i := range changes {
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-tick.C:
		}
		name := podName(i % pods)
		if last, err = w.put(ctx, below, name, i%pods, w.uid(name)); err != nil {
			return 0, err
		}
	}
	return last, nil
}

// busy writes until ctx ends: one in podEvery objects is a pod, whose revision it stores in latest.
func (w *world) busy(ctx context.Context, pods int, latest *atomic.Int64) error {
	tick := time.NewTicker(time.Second / time.Duration(w.bench.rate))
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		var err error
		if i%podEvery == 0 {
			name := podName(i / podEvery % pods)
			var revision int64
			if revision, err = w.put(ctx, below, name, i/podEvery%pods, w.uid(name)); err == nil {
				latest.Store(revision)
			}
		} else {
			err = w.putOther(ctx, fmt.Sprintf("other-%d", i%pods))
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// putOther writes a ConfigMap directly to etcd.
func (w *world) putOther(ctx context.Context, name string) error {
	table := w.bench.table
	data, err := table.EncodeStorage(scheme.For[*corev1.ConfigMap](table), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: w.uid(name), CreationTimestamp: metav1.Unix(1_800_000_000, 0)},
		Data:       map[string]string{"written": time.Now().String()},
	})
	if err != nil {
		return err
	}
	if _, err := w.Client().Put(ctx, history.Root+"configmaps/"+namespace+"/"+name, string(data)); err != nil {
		return fmt.Errorf("writing to etcd: %w", err)
	}
	return nil
}

func podName(n int) string { return fmt.Sprintf("pod-%06d", n) }

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.3g", float64(d)/float64(time.Millisecond))
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3g", d.Seconds()) }

func micro(d time.Duration) string {
	return fmt.Sprintf("%.4g", float64(d)/float64(time.Microsecond))
}

func megabytes(bytes int64) string { return fmt.Sprintf("%.0f", float64(bytes)/(1<<20)) }

func sum(all []time.Duration) time.Duration {
	var total time.Duration
	for _, d := range all {
		total += d
	}
	return total
}
