// Package load writes to a plane as many concurrent programs would: it creates, changes, binds and
// deletes pods, config maps and secrets in several namespaces.
package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/scheme"
)

// Numbers of namespaces, nodes, objects per namespace, and workers. Names end in a number below
// these.
const (
	Namespaces = 3
	Nodes      = 3
	objects    = 24
	workers    = 4
)

// callTimeout bounds one write, since an apiserver may be stopped.
const callTimeout = 2 * time.Second

// Load writes to the plane unless it is paused.
type Load struct {
	clients []client.Interface
	etcd    *clientv3.Client
	table   *scheme.Table
	seed    uint64
	pause   time.Duration // average pause between two writes of one worker

	running sync.RWMutex // locked while paused
	writes  atomic.Int64
	failed  atomic.Int64
	serial  atomic.Int64
}

// New creates a load of about rate writes per second on some apiservers and their etcd.
func New(configs []*rest.Config, etcd *clientv3.Client, table *scheme.Table, seed uint64, rate int) (*Load, error) {
	l := &Load{etcd: etcd, table: table, seed: seed, pause: time.Second * workers / time.Duration(max(rate, 1))}
	for _, config := range configs {
		c, err := client.New(config, table)
		if err != nil {
			return nil, err
		}
		l.clients = append(l.clients, c)
	}
	return l, nil
}

// Prepare creates the namespaces.
func (l *Load) Prepare(ctx context.Context) error {
	for i := range Namespaces {
		_, err := client.Of[*corev1.Namespace](l.clients[0]).Create(ctx,
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace(i)}}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating a namespace: %w", err)
		}
	}
	return nil
}

func namespace(i int) string { return fmt.Sprintf("chaos-%d", i) }

func node(i int) string { return fmt.Sprintf("node-%d", i) }

// Run writes until ctx ends.
func (l *Load) Run(ctx context.Context) error {
	var group errgroup.Group
	for i := range workers {
		random := rand.New(rand.NewPCG(l.seed, uint64(i)))
		group.Go(func() error {
			for ctx.Err() == nil {
				l.write(ctx, random)
				select {
				case <-ctx.Done():
				case <-time.After(time.Duration(random.ExpFloat64() * float64(l.pause))):
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// Pause waits for writes in progress, and prevents others until Resume.
func (l *Load) Pause() { l.running.Lock() }

// Resume ends a pause.
func (l *Load) Resume() { l.running.Unlock() }

// Counts returns the numbers of successful and failed writes.
func (l *Load) Counts() (writes, failed int64) { return l.writes.Load(), l.failed.Load() }

// Burst makes count writes as fast as possible.
func (l *Load) Burst(ctx context.Context, random *rand.Rand, count int) {
	var group errgroup.Group
	for range workers {
		own := rand.New(rand.NewPCG(random.Uint64(), 7))
		group.Go(func() error {
			for range count / workers {
				l.write(ctx, own)
			}
			return nil
		})
	}
	_ = group.Wait()
}

// write makes one random write. Failures are part of the test.
func (l *Load) write(ctx context.Context, random *rand.Rand) {
	l.running.RLock()
	defer l.running.RUnlock()
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	in, name, kind := namespace(random.IntN(Namespaces)), fmt.Sprintf("object-%d", random.IntN(objects)), random.IntN(4)
	luck, first := random.IntN(100), random.IntN(len(l.clients))
	var err error
	for i := range l.clients {
		c := l.clients[(first+i)%len(l.clients)]
		switch {
		case luck < 34:
			err = l.create(ctx, c, kind, in, name)
		case luck < 66:
			err = l.change(ctx, c, kind, in, name)
		case luck < 82:
			err = l.Bind(ctx, random, in, name)
		case luck < 96:
			err = l.remove(ctx, c, kind, in, name)
		case luck < 99:
			err = l.Move(ctx, in, name, node(random.IntN(Nodes)))
		default:
			err = l.removeMany(ctx, random)
		}
		if err == nil || apierrors.ReasonForError(err) != metav1.StatusReasonUnknown || errors.Is(err, errNothing) {
			break
		}
	}
	switch {
	case err == nil:
		l.writes.Add(1)
	case !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsConflict(err) && !errors.Is(err, errNothing):
		l.failed.Add(1)
	}
}

// create creates an object of a kind, by number; pods have two numbers, since most views are of
// pods.
func (l *Load) create(ctx context.Context, c client.Interface, kind int, in, name string) error {
	about := metav1.ObjectMeta{Namespace: in, Name: name, Labels: map[string]string{"serial": fmt.Sprint(l.serial.Add(1))}}
	var err error
	switch kind {
	case 0:
		_, err = client.Of[*corev1.ConfigMap](c).Create(ctx,
			&corev1.ConfigMap{ObjectMeta: about, Data: map[string]string{"key": strings.Repeat("v", 200)}}, metav1.CreateOptions{})
	case 1:
		_, err = client.Of[*corev1.Secret](c).Create(ctx,
			&corev1.Secret{ObjectMeta: about, StringData: map[string]string{"key": "secret"}}, metav1.CreateOptions{})
	default:
		_, err = client.Of[*corev1.Pod](c).Create(ctx, pod(about, ""), metav1.CreateOptions{})
	}
	return err
}

func pod(about metav1.ObjectMeta, ballast string) *corev1.Pod {
	container := corev1.Container{Name: "main", Image: "example.com/image:1"}
	if ballast != "" {
		container.Env = []corev1.EnvVar{{Name: "BALLAST", Value: ballast}}
	}
	return &corev1.Pod{ObjectMeta: about, Spec: corev1.PodSpec{Containers: []corev1.Container{container}}}
}

func (l *Load) change(ctx context.Context, c client.Interface, kind int, in, name string) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"serial":"%d"}}}`, l.serial.Add(1))
	var err error
	switch kind {
	case 0:
		_, err = client.Of[*corev1.ConfigMap](c).Patch(ctx, in, name, types.MergePatchType, patch, metav1.PatchOptions{}, "")
	case 1:
		_, err = client.Of[*corev1.Secret](c).Patch(ctx, in, name, types.MergePatchType, patch, metav1.PatchOptions{}, "")
	default:
		_, err = client.Of[*corev1.Pod](c).Patch(ctx, in, name, types.MergePatchType, patch, metav1.PatchOptions{}, "")
	}
	return err
}

func (l *Load) remove(ctx context.Context, c client.Interface, kind int, in, name string) error {
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	switch kind {
	case 0:
		return client.Of[*corev1.ConfigMap](c).Delete(ctx, in, name, now)
	case 1:
		return client.Of[*corev1.Secret](c).Delete(ctx, in, name, now)
	}
	return client.Of[*corev1.Pod](c).Delete(ctx, in, name, now)
}

// Bind binds a pod to a random node, as a scheduler does.
func (l *Load) Bind(ctx context.Context, random *rand.Rand, in, name string) error {
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: name},
		Target: corev1.ObjectReference{Kind: "Node", Name: node(random.IntN(Nodes))}}
	return client.Of[*corev1.Pod](l.clients[random.IntN(len(l.clients))]).CreateSubresource(ctx, in, name, "binding", binding,
		nil, metav1.CreateOptions{})
}
